-- What the scripts on locks share.

local key, now = KEYS[1], clock()
local lock = read(key, { 'owner', 'fence', 'ends_at' })

-- A lease that has ended is over, whoever had it.
local function is_held()
  return lock.owner
    and not has_come(lock.ends_at, now)
end

local function is_ours(owner)
  return is_held()
    and lock.owner == owner
end

-- Remembers the fence at least until the time alone gives a higher one.
local function remember(fence, ends_at)
  leave(key, later(ends_at, fence))
end

local function taken()
  return { 'taken', now, is_held() and lock.ends_at or now }
end
