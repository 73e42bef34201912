#!/usr/bin/env bash
# Opens real reports in Chromium and looks at them. Uses node, npm and /usr/bin/chromium (or $CHROMIUM); installs what is
# missing by apt-get where that is allowed.
# Usage: run.sh [DIRECTORY FOR SCREENSHOTS]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/motes-browser.XXXXXX")
trap 'rm -rf "$work"' EXIT
shots=$(realpath -m "${1:-$(mktemp -d "${TMPDIR:-/tmp}/motes-screenshots.XXXXXX")}")
chromium=${CHROMIUM:-/usr/bin/chromium}
missing=()
command -v node >/dev/null && command -v npm >/dev/null || missing+=(nodejs npm)
command -v "$chromium" >/dev/null || missing+=(chromium)
if [ ${#missing[@]} -gt 0 ] && command -v apt-get >/dev/null; then
  as_root=$([ "$(id -u)" = 0 ] || echo sudo)
  $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || true
fi
for need in node npm "$chromium"; do
  command -v "$need" >/dev/null || { echo "test-browser: $need is missing; install it (apt-get install nodejs npm chromium)" >&2; exit 2; }
done

motes=${MOTES:-}
if [ -z "$motes" ]; then
  (cd "$root" && cargo build --quiet -p motes-cli)
  motes=${CARGO_TARGET_DIR:-$root/target}/debug/motes
fi

# The driver is installed outside the repository and kept for the next time.
driver=${XDG_CACHE_HOME:-$HOME/.cache}/motes-browser
mkdir -p "$driver" "$shots"
cp "$here/package.json" "$driver/"
[ -d "$driver/node_modules/playwright-core" ] || (cd "$driver" && npm install --no-audit --no-fund --silent)

cd "$work"
nasty='</script><img src=x onerror=alert(1)>'
{
  printf '"%s",plain,<b>class</b>\n' "$nasty"
  for i in $(seq 60); do
    if [ $((i % 3)) = 0 ]; then class=no; else class=yes; fi
    printf '%d,%d,%s\n' $((i * 7 % 11)) $((i * 5 % 13)) "$class"
  done
} > nasty.csv
"$motes" fit logistic --algorithm pgd --particles 50 --steps 1000 --metrics-every 20 --quiet --out logistic
"$motes" fit logistic --data nasty.csv --algorithm pgd --steps 300 --particles 10 --quiet --out nasty
"$motes" fit hierarchical --algorithm pgd --steps 5000 --quiet --out toy
"$motes" fit hierarchical --quiet --out stages
"$motes" fit logistic --quiet --out default
"$motes" fit hierarchical --algorithm pmgd --particles 50 --steps 2000 --step-size 0.1 --quiet --out pmgd
"$motes" fit hierarchical --algorithm marginal-mh --dim 1 --particles 4 --step-size 0.5 --steps 4000 --quiet --out mh
"$motes" fit hierarchical --algorithm em --steps 30 --quiet --out em
"$motes" fit hierarchical --algorithm pgd --dim 5000 --particles 4 --steps 400 --quiet --out wide
"$motes" fit logistic --algorithm pqn --particles 20 --steps 600 --metrics-every 20 --quiet --out pqn
# The same run as if theta had three components.
mkdir three
cp toy/config.toml toy/posterior.npz three/
awk -F, 'NR == 1 { print "k,alpha,beta,gamma"; next } { print $1 "," $2 "," 2 * $2 "," (-$2) }' toy/trace.csv > three/trace.csv
node -e '
  const s = JSON.parse(require("fs").readFileSync("toy/summary.json"));
  const times = (v) => [v, 2 * v, -v];
  const { last, mean, mc_error } = s.theta;
  s.d_theta = 3;
  s.theta = { names: ["alpha", "beta", "gamma"], last: times(last[0]), mean: times(mean[0]), mc_error: times(mc_error[0]).map(Math.abs),
    se: times(s.theta.se[0]).map(Math.abs), information_share: [0.5, 0.5, null] };
  s.theta.interval = s.theta.mean.map((m, i) => [m - 2 * s.theta.se[i], m + 2 * s.theta.se[i]]);
  s.diagnostics.distance = times(s.diagnostics.distance[0]);
  s.diagnostics.ess = times(s.diagnostics.ess[0]).map(Math.abs);
  s.diagnostics.drift = times(s.diagnostics.drift[0]);
  console.log(JSON.stringify(s));
' > three/summary.json
"$motes" report three
mkdir unfinished
sed 's/^steps = .*/steps = 9000/' toy/config.toml > unfinished/config.toml
head -c 50000 toy/trace.csv > unfinished/trace.csv
"$motes" report unfinished
mkdir begun
cp stages/config.toml begun/
head -n 130 stages/trace.csv > begun/trace.csv
"$motes" report begun
# A verdict other than ok, and a log-likelihood that is not to be had.
cp -r stages doubtful
node -e '
  const s = JSON.parse(require("fs").readFileSync("stages/summary.json"));
  s.diagnostics.verdict = "poor-mixing";
  s.diagnostics.advice = "the particles do not visit all of the posterior; try other starts";
  s.log_likelihood = { ...s.log_likelihood, value: null, why_not: "its Monte Carlo error would be 12", mc_error: null, method: null, aic: null, bic: null };
  console.log(JSON.stringify(s));
' > doubtful/summary.json
"$motes" report doubtful
# The same data with one parameter more.
mkdir larger
cp stages/config.toml stages/trace.csv larger/
node -e '
  const s = JSON.parse(require("fs").readFileSync("stages/summary.json"));
  s.d_theta = 2;
  s.theta = { names: ["theta", "log_sd"], last: [0.8, 0.1], mean: [0.8, 0.1], se: [0.1, 0.2], mc_error: [0.01, 0.01] };
  s.diagnostics.ess = [];
  s.log_likelihood = { ...s.log_likelihood, value: s.log_likelihood.value + 2.5 };
  console.log(JSON.stringify(s));
' > larger/summary.json
"$motes" compare stages larger --output ratio.html --quiet
"$motes" compare logistic --algorithms auto,pgd,pmgd --steps 300 --quiet --out compared
"$motes" report logistic pqn --output logistic-runs.html
"$motes" report toy pmgd em unfinished --output toy-runs.html

cp "$here/check.mjs" "$driver/check.mjs"
CHROMIUM=$chromium node "$driver/check.mjs" "$work" "$shots"
echo "screenshots: $shots"
