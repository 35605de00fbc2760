-- Makes the lease end so long from now.

local epoch, nonce, lease = unpack(ARGV)
local record = read(key, STANDING)

local function may_renew()
  return is_owned(record, epoch, nonce)
    and record.state == CLAIMED
end

if not may_renew() then return found() end
redis.call('HSET', key, 'lease_until', plus(now, lease))
return applied(epoch)
