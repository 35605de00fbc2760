-- A small shop, all of it in order: every check of `hapax verify` passes on it.
-- 2026-10-01 00:00 UTC is 1790812800000, 2100-01-01 is 4102444800000.

-- Keys: one of every status. Each id is the SHA-256 of its framed parts.
INSERT INTO hapax_records (id, scope, tenant, subject, operation, key_text, class, state, epoch,
    nonce, prints, lease_until, retake_after, retake_until, expires_at, reuse_at, outcome, attempts,
    caller, created_at, completed_at, format)
VALUES
    -- Alive.
    (x'269050e8e7830ddf9dffb74c2bc9f9fb2b274428e95fc8560c40fb01736b5ab7', 'principal', 'shop',
     'merchant', 'payment.create', 'order-1001-b', 2, 1, 1790812900001, randomblob(16), x'',
     4102444800000, 0, 4102444900000, NULL, NULL, NULL, 1, 'process 7', 1790812900000, NULL, 1),
    -- Dead.
    (x'a88615e104c76e406e65802ed84754c2bf294e2cefdb7ad8804a7a482bc23398', 'principal', 'shop',
     'merchant', 'payment.create', 'order-1002', 2, 1, 1790812900002, randomblob(16), x'',
     1790812915000, 0, 1791417600000, NULL, NULL, NULL, 2, 'process 7', 1790812900000, NULL, 1),
    -- Dead for too short a time to be judged.
    (x'8db57a0efe65c7d8ba59dd4c0083ed689131a596d1a0d4618276a335705fb10a', 'principal', 'shop',
     'merchant', 'courier.book', 'parcel-8', 3, 1, 1790812900003, randomblob(16), x'',
     1790812915000, 2311631885000, NULL, NULL, NULL, NULL, 1, 'process 7', 1790812900000, NULL, 1),
    -- Nobody knows.
    (x'9226ef2fd48bd402f0bd716b59410f8683e8419f7fefad6022cf55894eadd68b', 'principal', 'shop',
     'merchant', 'parcel.send', 'parcel-7', 4, 3, 1790812900004, randomblob(16), x'',
     1790812903000, NULL, NULL, NULL, NULL, NULL, 1, 'process 7', 1790812900000, NULL, 1),
    -- Done: 201 {"payment_no":"P1001"}.
    (x'1d2d56b77bba71e40060014c9a2ab5ac412fbe2e4ec43b67eb95bdbb85e34cd4', 'principal', 'shop',
     'merchant', 'payment.create', 'order-1001', 2, 2, 1790812800001, randomblob(16), x'',
     1790812815000, 0, 1791417600000, 4102444800000, 4102444900000,
     x'01000001010000C9000001A0F4C2C4000001000C636F6E74656E742D7479706500106170706C69636174696F6E2F6A736F6E7B227061796D656E745F6E6F223A225031303031227D',
     1, 'process 7', 1790812800000, 1790812801000, 1),
    -- Done, and no longer replayed.
    (x'96c659dcca62b15fc0ee3962e97ca9d34f43a1199cf0944fc0bb69f9d3f86a8f', 'principal', 'shop',
     'merchant', 'payment.create', 'order-0900', 2, 2, 1790812700001, randomblob(16), x'',
     1790812715000, 0, 1791417600000, 1790812800000, 4102444900000,
     x'01000001010000C9000001A0F4C2C4000001000C636F6E74656E742D7479706500106170706C69636174696F6E2F6A736F6E7B227061796D656E745F6E6F223A225031303031227D',
     1, 'process 7', 1790812700000, 1790812701000, 1),
    -- Released so long ago that it counts as absent.
    (x'ec608b22f1b26b06e39938a22c2f3ea3e390983256d1bfe3ce6d8685a3a03fd4', 'principal', 'shop',
     'merchant', 'payment.create', 'order-0800', 2, 4, 1790812600001, randomblob(16), x'',
     1790812615000, 0, 1791417600000, NULL, 1790816200000, NULL, 1, 'process 7', 1790812600000,
     NULL, 1);

INSERT INTO hapax_journal (record, at, epoch, event, actor, note)
VALUES
    (x'a88615e104c76e406e65802ed84754c2bf294e2cefdb7ad8804a7a482bc23398', 1790812900000,
     1790812900000, 'claimed', 'process 6', ''),
    (x'a88615e104c76e406e65802ed84754c2bf294e2cefdb7ad8804a7a482bc23398', 1790812900002,
     1790812900002, 'retaken', 'process 7', ''),
    (x'9226ef2fd48bd402f0bd716b59410f8683e8419f7fefad6022cf55894eadd68b', 1790812900004,
     1790812900004, 'claimed', 'process 7', ''),
    (x'9226ef2fd48bd402f0bd716b59410f8683e8419f7fefad6022cf55894eadd68b', 1790812903000,
     1790812900004, 'doubted', 'process 7', 'the courier did not answer');

-- Orders: paid; waiting; paid twice; paid and given back; closed unpaid.
INSERT INTO pay_orders (tenant, order_id, round, amount, currency, subject, benefits, status,
    fulfillable, paid_by, attempts, version, created_at, updated_at)
VALUES
    ('shop', '1001', 1, 8880, 'CNY', 'One month', '["vip_month"]', 'paid', 1, 'P1001', 1, 2,
     1790812800000, 1790812860000),
    ('shop', '1002', 1, 100, 'CNY', 'A pen', '[]', 'pending', 1, NULL, 1, 1, 1790812900000,
     1790812900000),
    ('shop', '1003', 1, 2000, 'CNY', 'A book', '[]', 'paid', 1, 'P1003b', 2, 3, 1790812800000,
     1790812870000),
    ('shop', '1004', 1, 500, 'CNY', 'One day', '["vip_day"]', 'paid', 1, 'P1004', 1, 2,
     1790812800000, 1790812860000),
    ('shop', '1005', 1, 700, 'CNY', 'A cup', '[]', 'closed', 1, NULL, 1, 2, 1790812800000,
     1790812890000);

INSERT INTO pay_payments (payment_no, tenant, order_id, round, attempt, channel, way, amount,
    currency, subject, reserved, refunded, given_back, status, surplus, version, trade_no, frozen,
    created_at, updated_at, expires_at, paid_at)
VALUES
    ('P1001', 'shop', '1001', 1, 1, 'alipay', 'code', 8880, 'CNY', 'One month', 0, 0, 0, 'paid', 0,
     3, '2026100122001', x'00', 1790812800000, 1790812860000, 1790813700000, 1790812860000),
    ('P1002', 'shop', '1002', 1, 1, 'alipay', 'code', 100, 'CNY', 'A pen', 0, 0, 0, 'waiting', 0,
     2, NULL, x'00', 1790812900000, 1790812901000, 1790813800000, NULL),
    ('P1003a', 'shop', '1003', 1, 1, 'alipay', 'code', 2000, 'CNY', 'A book', 0, 2000, 2000, 'paid',
     1, 5, '2026100122003', x'00', 1790812800000, 1790812880000, 1790813700000, 1790812880000),
    ('P1003b', 'shop', '1003', 1, 2, 'alipay', 'code', 2000, 'CNY', 'A book', 0, 0, 0, 'paid', 0, 3,
     '2026100122004', x'00', 1790812850000, 1790812870000, 1790813750000, 1790812870000),
    ('P1004', 'shop', '1004', 1, 1, 'alipay', 'page', 500, 'CNY', 'One day', 0, 500, 500, 'paid', 0,
     3, '2026100122005', x'00', 1790812800000, 1790812860000, 1790813700000, 1790812860000),
    ('P1005', 'shop', '1005', 1, 1, 'alipay', 'code', 700, 'CNY', 'A cup', 0, 0, 0, 'closed', 0, 4,
     NULL, x'00', 1790812800000, 1790812890000, 1790812880000, NULL);

INSERT INTO hapax_transitions (kind, entity, version, from_state, to_state, event, actor, at)
VALUES
    ('payment', 'P1001', 1, 'created', 'waiting', 'prepared', 'hapax-pay', 1790812801000),
    ('payment', 'P1001', 2, 'waiting', 'paid', 'paid', 'hapax-pay', 1790812860000),
    ('payment', 'P1002', 1, 'created', 'waiting', 'prepared', 'hapax-pay', 1790812901000),
    ('payment', 'P1003a', 1, 'created', 'waiting', 'prepared', 'hapax-pay', 1790812801000),
    ('payment', 'P1003a', 2, 'waiting', 'closing', 'close_asked', 'hapax-pay', 1790812840000),
    ('payment', 'P1003a', 3, 'closing', 'closed', 'closed_unpaid', 'hapax-pay', 1790812841000),
    ('payment', 'P1003a', 4, 'closed', 'paid', 'paid', 'hapax-pay', 1790812880000),
    ('payment', 'P1003b', 1, 'created', 'waiting', 'prepared', 'hapax-pay', 1790812851000),
    ('payment', 'P1003b', 2, 'waiting', 'paid', 'paid', 'hapax-pay', 1790812870000),
    ('payment', 'P1004', 1, 'created', 'waiting', 'prepared', 'hapax-pay', 1790812801000),
    ('payment', 'P1004', 2, 'waiting', 'paid', 'paid', 'hapax-pay', 1790812860000),
    ('payment', 'P1005', 1, 'created', 'waiting', 'prepared', 'hapax-pay', 1790812801000),
    ('payment', 'P1005', 2, 'waiting', 'closing', 'close_asked', 'hapax-pay', 1790812885000),
    ('payment', 'P1005', 3, 'closing', 'closed', 'closed_unpaid', 'hapax-pay', 1790812890000);

INSERT INTO pay_refunds (tenant, refund_no, payment_no, amount, currency, reason, origin, status,
    version, created_at, sent_at, done_at)
VALUES
    ('shop', 'auto_P1003a', 'P1003a', 2000, 'CNY', 'surplus', 'auto', 'done', 3, 1790812880000,
     1790812881000, 1790812882000),
    ('shop', 'R1004', 'P1004', 500, 'CNY', 'changed my mind', 'merchant', 'done', 3, 1790812880000,
     1790812881000, 1790812882000);

INSERT INTO pay_benefits (tenant, order_id, round, benefit, payment_no, status, version, created_at,
    updated_at)
VALUES
    ('shop', '1001', 1, 'vip_month', 'P1001', 'granted', 2, 1790812860000, 1790812861000),
    ('shop', '1004', 1, 'vip_day', 'P1004', 'revoked', 4, 1790812860000, 1790812883000);

INSERT INTO pay_effects (tenant, order_id, round, benefit, kind, message_id, at)
VALUES
    ('shop', '1001', 1, 'vip_month', 'grant', 'm1', 1790812861000),
    ('shop', '1004', 1, 'vip_day', 'grant', 'm2', 1790812861000),
    ('shop', '1004', 1, 'vip_day', 'revoke', 'm3', 1790812883000);

-- Messages: one on its way, two given up.
INSERT INTO hapax_outbox (sequence, id, topic, key_text, payload, visible_at, attempts, why,
    created_at)
VALUES
    (11, x'0f0e0d0c0b0a09080706050403020100', 'merchant.notice', 'merchant.notice/shop/1001',
     CAST('{"type":"payment.paid","payment_no":"P1001"}' AS BLOB), NULL, 12,
     'the receiver answered 500', 1790812860000),
    (12, x'1f1e1d1c1b1a19181716151413121110', 'merchant.notice', 'merchant.notice/shop/1003',
     CAST('{"type":"payment.paid","payment_no":"P1003b"}' AS BLOB), NULL, 12,
     'the receiver answered 404', 1790812870000),
    (13, x'2f2e2d2c2b2a29282726252423222120', 'merchant.notice', 'merchant.notice/shop/1004',
     CAST('{"type":"payment.paid","payment_no":"P1004"}' AS BLOB), 4102444800000, 3, NULL,
     1790812880000);

INSERT INTO hapax_outbox_journal (message, at, event, actor, reason)
VALUES
    (x'0f0e0d0c0b0a09080706050403020100', 1790899260000, 'buried', 'relay',
     'the receiver answered 500'),
    (x'1f1e1d1c1b1a19181716151413121110', 1790899270000, 'buried', 'relay',
     'the receiver answered 404');
