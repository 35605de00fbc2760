# The guardian of one test's own server: watch.sh DIR SIGNAL
#
# It is told the number of the server's process on each line, an empty one when there is none. Its
# input ends when the test's process ends, however it ends: then it ends what it was told last,
# with its children, and removes the directory.
dir=$1 signal=$2 pid=
while read -r told; do pid=$told; done
# The kernel may have given the number to somebody else: only a command line with DIR is ours.
if [ -n "$pid" ] && grep -qF "$dir" "/proc/$pid/cmdline" 2>/dev/null; then
  children=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
  kill -s "$signal" "$pid"
  kill -s CONT "$pid" $children 2>/dev/null
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -s 0 "$pid" 2>/dev/null || break
    sleep 0.2
  done
  kill -s KILL "$pid" $children 2>/dev/null
fi
rm -rf "$dir"
