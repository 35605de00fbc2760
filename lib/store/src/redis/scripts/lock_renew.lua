-- Makes the lease end so long from now, if the lock is still the owner's.

local owner, lease = unpack(ARGV)
if not is_ours(owner) then return taken() end
local ends_at = plus(now, lease)
redis.call('HSET', key, 'ends_at', ends_at)
remember(lock.fence, ends_at)
return { 'mine', lock.fence }
