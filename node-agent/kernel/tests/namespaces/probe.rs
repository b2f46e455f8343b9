//! The probe says what the other tests show: this kernel can do it all.

#[tokio::test]
async fn a_kernel_that_runs_these_tests_lacks_nothing() {
    litek8s_kernel::probe().await.unwrap();
}
