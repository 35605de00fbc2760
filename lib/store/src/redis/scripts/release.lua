-- Surely no effect: gives the work back.

local key, now = KEYS[1], clock()
local epoch, nonce, memory = unpack(ARGV)
local record = read(key, STANDING)

local function may_release()
  return is_owned(record, epoch, nonce)
    and is_unresolved(record)
end

if not may_release() then return found(key, now) end
open(key, now, epoch, memory)
tell(key, now, epoch, 'released', record.caller, '')
return applied(epoch, now)
