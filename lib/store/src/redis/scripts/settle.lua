-- A verifier or a person decides what an unresolved attempt did.

local seen, nonce, by, note, ruling, outcome, keep, grace_or_memory = unpack(ARGV)

-- The very ruling that is repeated because its answer was lost.
local function is_settled()
  return record.nonce == nonce
    and record.state ~= CLAIMED
end

-- Only an attempt that is surely over may be judged: its lease and its quiet time have passed.
local function may_settle()
  return record.epoch == seen
    and is_unresolved()
    and has_come(plus(record.lease_until, record.retake_after or '0'), now)
    and not is_settled()
end

if not may_settle() then return found() end
local epoch = epoch_after(record.epoch, now)
local fields = { 'epoch', epoch, 'nonce', nonce }
if ruling == 'completed' then
  close(fields, epoch, outcome, keep, grace_or_memory)
else
  open(fields, epoch, grace_or_memory)
end
tell(fields, epoch, 'settled', by, note)
write(fields)
return applied(epoch)
