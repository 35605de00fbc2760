-- What the scripts share.
--
-- A number in Lua is a double, which is exact up to 2^53 only. So every time, span and epoch
-- stays the decimal text that the record keeps (never negative, no leading zeros): it is compared
-- as text, and added in two halves. Sums stop at the end of time, as those of the pure rule do.

local CLAIMED, COMPLETED, UNKNOWN, OPEN = '1', '2', '3', '4'
local FORMAT = '1'
local END_OF_TIME = '9223372036854775807'
-- Texts of at most so many digits are exact as doubles, and so are their sums.
local EXACT_DIGITS = 15
-- A key outlives its horizon by so many milliseconds: a replica whose clock is behind may become
-- the master, and must still find the epoch that the next one has to be above.
local CLOCK_SLACK = '60000'
-- Lines that a journal keeps; the oldest go first.
local LINES_MAX = 1000

-- The server's time in milliseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
end

-- Whether `moment` has come; one that is not there never comes.
local function has_come(moment, now)
  if not moment then return false end
  if #moment ~= #now then return #moment < #now end
  return moment <= now
end

local function later(one, other)
  if has_come(one, other) then return other end
  return one
end

local function sooner(one, other)
  if has_come(one, other) then return one end
  return other
end

-- A sum that stops at the end of time.
local function plus(moment, span)
  if #moment <= EXACT_DIGITS and #span <= EXACT_DIGITS then
    return string.format('%d', moment + span)
  end
  local function half(text, from, to) return tonumber(string.sub(text, from, to)) or 0 end
  local low = half(moment, -9, -1) + half(span, -9, -1)
  local high = half(moment, 1, -10) + half(span, 1, -10) + math.floor(low / 1e9)
  local sum = string.format('%d%09d', high, low % 1e9)
  return sooner(sum, END_OF_TIME)
end

-- The epoch that follows `previous`, which may be missing.
local function epoch_after(previous, now)
  if not previous then return now end
  return later(plus(previous, '1'), now)
end

-- Fields of a hash by their names, and in their order; one that is missing is false.
local function read(key, fields)
  local values = redis.call('HMGET', key, unpack(fields))
  local found = { values = values }
  for place, field in ipairs(fields) do found[field] = values[place] end
  return found
end

-- Lets the key go some time after `horizon`. One beyond exact numbers is for ever.
local function leave(key, horizon)
  if #horizon <= EXACT_DIGITS then
    redis.call('PEXPIREAT', key, plus(horizon, CLOCK_SLACK))
  else
    redis.call('PERSIST', key)
  end
end
