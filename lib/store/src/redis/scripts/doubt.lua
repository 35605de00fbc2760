-- The holder says that it does not know whether the effect happened.

local epoch, nonce, note = unpack(ARGV)

local function may_doubt()
  return is_owned(epoch, nonce)
    and record.state == CLAIMED
end

if not may_doubt() then return found() end
local fields = { 'state', UNKNOWN, 'lease_until', now }
tell(fields, epoch, 'doubted', record.caller, note)
write(fields)
return applied(epoch)
