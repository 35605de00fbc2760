-- Gives the lock back and says so to those who wait; of somebody else's nothing changes.

local owner, channel, name = unpack(ARGV)
if not is_ours(owner) then return 0 end
redis.call('HDEL', key, 'owner', 'ends_at')
remember(lock.fence, now)
redis.call('PUBLISH', channel, name)
return 1
