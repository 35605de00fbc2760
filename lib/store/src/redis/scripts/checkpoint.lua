-- Keeps a recovery point.

local epoch, nonce, point = unpack(ARGV)
local record = read(key, STANDING)

local function may_keep()
  return is_owned(record, epoch, nonce)
    and record.state == CLAIMED
end

if not may_keep() then return found() end
redis.call('HSET', key, 'checkpoint', point)
return applied(epoch)
