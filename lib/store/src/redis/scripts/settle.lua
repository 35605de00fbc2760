-- A verifier or a person decides what an unresolved attempt did.

local seen, nonce, by, note, ruling, outcome, keep, grace_or_memory = unpack(ARGV)
local record = read(key, STANDING)

-- The very ruling that is repeated because its answer was lost.
local function is_settled()
  return record.nonce == nonce
    and record.state ~= CLAIMED
end

local quiet = is_there(record.retake_after) and record.retake_after or '0'

-- Only an attempt that is surely over may be judged: its lease and its quiet time have passed.
local function may_settle()
  return record.epoch == seen
    and is_unresolved(record)
    and has_come(plus(record.lease_until, quiet), now)
    and not is_settled()
end

if not may_settle() then return found() end
local epoch = epoch_after(record.epoch, now)
local told = line(epoch, 'settled', by, note)
if ruling == 'completed' then
  close(record, epoch, nonce, outcome, keep, grace_or_memory, told)
else
  open(record, epoch, nonce, grace_or_memory, told)
end
return applied(epoch)
