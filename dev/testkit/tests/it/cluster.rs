//! Redis Cluster: keys move, masters die, clients are told of proxies.

use redis::AsyncCommands as _;

use hapax_testkit::{
    RedisCluster,
    proxy::{Fate, scripts},
    redis_cluster,
};

async fn client(urls: &[String]) -> redis::cluster_async::ClusterConnection {
    let client = redis::cluster::ClusterClient::new(urls.to_vec()).unwrap();
    client.get_async_connection().await.unwrap()
}

#[tokio::test]
async fn the_shared_cluster_takes_keys_of_every_slot() {
    let cluster = redis_cluster().await.unwrap();
    assert_eq!(cluster.urls().len(), 6);
    let mut session = client(cluster.urls()).await;
    for n in 0..50 {
        let key = format!("the_shared_cluster:{n}");
        let _: () = session.set(&key, n).await.unwrap();
        assert_eq!(session.get::<_, i64>(&key).await.unwrap(), n);
    }
}

#[tokio::test]
async fn a_slot_moves_with_its_keys() {
    let cluster = RedisCluster::start().await.unwrap();
    let mut session = client(&cluster.urls()).await;
    let _: () = session.set("{moved}one", 1).await.unwrap();
    let from = cluster.master_of("{moved}").await.unwrap();
    let to = (from + 1) % 3;

    cluster.move_slot_of("{moved}", to).await.unwrap();

    assert_eq!(cluster.master_of("{moved}").await.unwrap(), to);
    assert_eq!(session.get::<_, i64>("{moved}one").await.unwrap(), 1);
}

#[tokio::test]
async fn a_replica_takes_over_from_a_killed_master_and_the_old_one_follows() {
    let cluster = RedisCluster::start().await.unwrap();
    let mut session = client(&cluster.urls()).await;
    let _: () = session.set("kept", 1).await.unwrap();
    let master = cluster.master_of("kept").await.unwrap();
    cluster.nodes()[master + 3].catch_up(&cluster.nodes()[master]).await.unwrap();

    cluster.nodes()[master].kill().await.unwrap();
    cluster.wait_for_master(master + 3).await.unwrap();
    cluster.settle().await.unwrap();
    assert_eq!(cluster.master_of("kept").await.unwrap(), master + 3);

    cluster.nodes()[master].restart().await.unwrap();
    cluster.settle().await.unwrap();
    assert!(cluster.nodes()[master].ask(&["ROLE"]).await.unwrap().starts_with("slave"));
    cluster.hand_over_to(master).await.unwrap();
    assert_eq!(session.get::<_, i64>("kept").await.unwrap(), 1);
}

#[tokio::test]
async fn all_traffic_of_a_proxied_cluster_crosses_its_proxies() {
    let cluster = RedisCluster::proxied().await.unwrap();
    let mut session = client(&cluster.urls()).await;
    for proxy in cluster.proxies() {
        proxy.reset();
    }
    for n in 0..20 {
        let _: () = session.set(format!("key{n}"), n).await.unwrap();
    }
    assert_eq!(cluster.tally().of("SET"), 20);

    let at = cluster.master_of("counted").await.unwrap();
    let proxy = &cluster.proxies()[at];
    proxy.next(Fate::AnswerLost, scripts);
    let script = redis::Script::new("return redis.call('INCR', KEYS[1])");
    // Whether the client asks again is its own affair: it must not be told of success.
    drop(script.key("counted").invoke_async::<i64>(&mut session).await);
    assert_eq!((proxy.swallowed(), proxy.armed()), (1, 0));
    assert!(session.get::<_, i64>("counted").await.unwrap() >= 1);
}
