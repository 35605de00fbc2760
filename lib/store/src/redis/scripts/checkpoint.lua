-- Keeps a recovery point.

local key, now = KEYS[1], clock()
local epoch, nonce, point = unpack(ARGV)
local record = read(key, STANDING)

local function may_keep()
  return is_owned(record, epoch, nonce)
    and record.state == CLAIMED
end

if not may_keep() then return found(key, now) end
redis.call('HSET', key, 'checkpoint', point)
return applied(epoch, now)
