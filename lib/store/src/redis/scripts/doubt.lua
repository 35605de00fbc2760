-- The holder says that it does not know whether the effect happened.

local key, now = KEYS[1], clock()
local epoch, nonce, note = unpack(ARGV)
local record = read(key, STANDING)

local function may_doubt()
  return is_owned(record, epoch, nonce)
    and record.state == CLAIMED
end

if not may_doubt() then return found(key, now) end
redis.call('HSET', key, 'state', UNKNOWN, 'lease_until', now)
tell(key, now, epoch, 'doubted', record.caller, note)
return applied(epoch, now)
