# The guardian of a server that test processes share: keep.sh RUN USE IDLE SIGNAL COMMAND...
#
# Each process that uses the server holds a shared lock on the file USE, and the kernel lets go of
# it when the process ends, however it ends. Once nobody has held it for IDLE seconds, the guardian
# takes it alone, ends the server and removes the directory RUN; a newcomer waits for that moment
# to pass and starts a new server.
run=$1 use=$2 idle=$3 signal=$4
shift 4
"$@" >>"$run/log" 2>&1 </dev/null &
server=$!
echo "$server" >"$run/pid.new" && mv "$run/pid.new" "$run/pid"
exec 9<"$use"
calm=0
while :; do
  sleep 1
  if flock -n -x 9; then
    calm=$((calm + 1))
    [ "$calm" -ge "$idle" ] && break
    flock -u 9
  else
    calm=0
  fi
done
kill -s "$signal" "$server"
wait "$server"
rm -rf "$run"
