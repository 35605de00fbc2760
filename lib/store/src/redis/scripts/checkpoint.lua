-- Keeps a recovery point.

local epoch, nonce, point = unpack(ARGV)

local function may_keep()
  return is_owned(epoch, nonce)
    and record.state == CLAIMED
end

if not may_keep() then return found() end
write({ 'checkpoint', point })
return applied(epoch)
