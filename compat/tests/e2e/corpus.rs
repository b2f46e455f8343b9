//! The corpus against an API server alone: as upstream, but for what is known to differ.

use anyhow::{Result, ensure};
use litek8s_compat::Cluster;
use litek8s_compat::corpus::{self, Case, Tier, Verdict};

async fn run(cluster: &Cluster, case: &Case) -> Result<Option<String>> {
    let known = corpus::differences()?;
    let difference = known.iter().find(|difference| difference.case == case.name);
    Ok(match corpus::run(case, &cluster.lab.kubeconfig(), difference).await? {
        Verdict::AsUpstream | Verdict::DiffersAsKnown => None,
        Verdict::Failed(why) => Some(format!("{}: {why}", case.name)),
    })
}

async fn tier(name: &str, tier: Tier) -> Result<()> {
    let cluster = Cluster::up(name, 0).await?;
    let mut failed = Vec::new();
    for case in corpus::cases()?.iter().filter(|case| case.tier == tier) {
        failed.extend(run(&cluster, case).await?);
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

#[tokio::test]
async fn requests_are_answered_as_upstream_answers_them() -> Result<()> {
    tier("corpusapi", Tier::Api).await
}

#[tokio::test]
async fn kubectl_prints_what_it_prints_of_upstream() -> Result<()> {
    tier("corpuscli", Tier::Clients).await
}

#[test]
fn every_difference_names_a_step_and_a_reason() -> Result<()> {
    let cases = corpus::cases()?;
    for difference in corpus::differences()? {
        let case = cases.iter().find(|case| case.name == difference.case);
        let there = case.is_some_and(|case| (1..=case.steps.len()).contains(&difference.step));
        ensure!(there && !difference.reason.is_empty(), "{difference:?}");
    }
    Ok(())
}
