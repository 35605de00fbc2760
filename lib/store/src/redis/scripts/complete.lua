-- Stores the outcome and closes the record.

local epoch, nonce, outcome, keep, grace = unpack(ARGV)
local record = read(key, STANDING)

local function may_complete()
  return is_owned(record, epoch, nonce)
    and is_unresolved(record)
end

if not may_complete() then return found() end
local told = line(epoch, 'completed', record.caller, '')
close(record, epoch, nonce, outcome, keep, grace, told)
return applied(epoch)
