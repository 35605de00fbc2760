-- Surely no effect: gives the work back.

local epoch, nonce, memory = unpack(ARGV)

local function may_release()
  return is_owned(epoch, nonce)
    and is_unresolved()
end

if not may_release() then return found() end
local fields = {}
open(fields, epoch, memory)
tell(fields, epoch, 'released', record.caller, '')
write(fields)
return applied(epoch)
