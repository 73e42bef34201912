#!/usr/bin/env bash
# Runs that several processes share, by Debian's OpenMPI, which it installs if it can: the binary with the feature `mpi` is built
# as target/mpi/motes and driven by mpirun. Where there is no OpenMPI to be had it says so and ends well.
set -euo pipefail
cd "$(dirname "$0")/../../../.."

if ! command -v mpirun > /dev/null || ! command -v mpicc > /dev/null || ! ls /usr/lib/llvm-*/lib/libclang*.so* > /dev/null 2>&1; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo -n"
  if ! $sudo apt-get install -y --no-install-recommends libopenmpi-dev openmpi-bin libclang-dev > /dev/null 2>&1; then
    echo "test-mpi: skipped, for OpenMPI is not installed and cannot be (libopenmpi-dev, openmpi-bin and libclang-dev)"
    exit 0
  fi
fi

cargo build --quiet -p motes-cli --features mpi
mkdir -p target/mpi
cp target/debug/motes target/mpi/motes
cargo build --quiet -p motes-cli
if ldd target/debug/motes | grep -q libmpi; then
  echo "test-mpi: the usual build links MPI" >&2
  exit 1
fi

# More ranks than cores, as root, in a container: none of it matters to what is tested.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
  OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none \
  OMPI_MCA_plm=isolated OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_orte_execute_quiet=1
python3 crates/motes-cli/tests/mpi/check.py target/mpi/motes target/debug/motes
