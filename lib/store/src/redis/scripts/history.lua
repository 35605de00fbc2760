-- The lines of the journal, oldest first.

local key = KEYS[1]
local count = tonumber(redis.call('HGET', key, 'lines') or 0)
local lines = {}
for number = math.max(1, count - LINES_MAX + 1), count do
  lines[#lines + 1] = redis.call('HGET', key, 'line:' .. number)
end
return lines
