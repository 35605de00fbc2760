-- What the scripts share.
--
-- A number in Lua is a double, which is exact up to 2^53. Core bounds every span at a thousand
-- years, so all times and their sums stay far below. They are kept as decimal text without an
-- exponent; the fence of a caller may be any number, and is only compared, as text.

local CLAIMED, COMPLETED, UNKNOWN, OPEN = '1', '2', '3', '4'
local FORMAT = '1'
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

-- Whether a value is there: a field may be missing or empty.
local function is_there(value)
  return value
    and value ~= ''
end

-- Whether `moment` has come; one that is not there never comes.
local function has_come(moment, now)
  return is_there(moment)
    and tonumber(moment) <= tonumber(now)
end

local function later(one, other)
  if has_come(one, other) then return other end
  return one
end

local function sooner(one, other)
  if has_come(one, other) then return one end
  return other
end

local function plus(moment, span)
  return string.format('%d', moment + span)
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

-- Lets the key go some time after `horizon`.
local function leave(key, horizon)
  redis.call('PEXPIREAT', key, plus(horizon, CLOCK_SLACK))
end
