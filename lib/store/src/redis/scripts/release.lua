-- Surely no effect: gives the work back.

local epoch, nonce, memory = unpack(ARGV)
local record = read(key, STANDING)

local function may_release()
  return is_owned(record, epoch, nonce)
    and is_unresolved(record)
end

if not may_release() then return found() end
open(record, epoch, nonce, memory, line(epoch, 'released', record.caller, ''))
return applied(epoch)
