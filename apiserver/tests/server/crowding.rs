//! More requests than there is room for: told to come back, except for administrators.

use http::StatusCode;
use serde_json::json;

use crate::client::Running;

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_no_room_is_told_when_to_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::start_over(directory, &["--max-mutating-requests-inflight", "0"]).await;
    let admin = server.admin(true).await;
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    assert_eq!(admin.post(review, &json!({})).await.code, StatusCode::CREATED);
    let jane = admin.with_header("impersonate-user", "jane");
    let refused = jane.post(review, &json!({})).await;
    assert_eq!(refused.code, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.json()["reason"], "TooManyRequests");
    // Reading has room of its own.
    assert_eq!(jane.get("/api").await.code, StatusCode::OK);
    let metrics = admin.get("/metrics").await.text();
    assert!(
        metrics.contains("apiserver_request_terminations_total{request_kind=\"mutating\"} 1"),
        "{metrics}"
    );
    server.stop().await;
}
