-- The holder says that it does not know whether the effect happened.

local epoch, nonce, note = unpack(ARGV)
local record = read(key, STANDING)

local function may_doubt()
  return is_owned(record, epoch, nonce)
    and record.state == CLAIMED
end

if not may_doubt() then return found() end
local number = line_after(record.lines)
redis.call('HSET', key, 'state', UNKNOWN, 'lease_until', now, 'lines', number,
  'line:' .. number, line(epoch, 'doubted', record.caller, note))
return applied(epoch)
