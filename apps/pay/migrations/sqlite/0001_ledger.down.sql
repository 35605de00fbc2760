DROP TABLE pay_requests;
DROP TABLE pay_runs;
DROP TABLE pay_notices;
DROP TABLE pay_effects;
DROP TABLE pay_benefits;
DROP TABLE pay_refunds;
DROP TABLE pay_payments;
DROP TABLE pay_orders;
