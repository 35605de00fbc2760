-- Stores the outcome and closes the record.

local key, now = KEYS[1], clock()
local epoch, nonce, outcome, keep, grace = unpack(ARGV)
local record = read(key, STANDING)

local function may_complete()
  return is_owned(record, epoch, nonce)
    and is_unresolved(record)
end

if not may_complete() then return found(key, now) end
close(key, now, epoch, outcome, keep, grace)
tell(key, now, epoch, 'completed', record.caller, '')
return applied(epoch, now)
