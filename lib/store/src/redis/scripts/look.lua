-- The record and the time, seen at one moment.

return found()
