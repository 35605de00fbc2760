-- Makes the lease end so long from now.

local epoch, nonce, lease = unpack(ARGV)

local function may_renew()
  return is_owned(epoch, nonce)
    and record.state == CLAIMED
end

if not may_renew() then return found() end
write({ 'lease_until', plus(now, lease) })
return applied(epoch)
