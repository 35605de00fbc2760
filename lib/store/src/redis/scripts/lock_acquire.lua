-- Takes the lock if it is free or its lease has ended.

local owner, lease = unpack(ARGV)

local function is_anothers()
  return is_held()
    and lock.owner ~= owner
end

if is_anothers() then return taken() end
local fence = is_ours(owner) and lock.fence or epoch_after(lock.fence, now)
local ends_at = plus(now, lease)
redis.call('HSET', key, 'owner', owner, 'fence', fence, 'ends_at', ends_at)
remember(fence, ends_at)
return { 'mine', fence }
