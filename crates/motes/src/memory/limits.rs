//! How much memory can still be had: of the machine, of the process's control groups, and within its own limits.

use std::path::{Component, Path, PathBuf};

/// Memory that can be had without swapping, where the system tells: the machine's, or less where a control group of the
/// process (of either version) or its limits (`ulimit -v`, `ulimit -d`) leave less.
pub fn available() -> Option<u128> {
    least(&|path| std::fs::read_to_string(path).ok())
}

/// The same for files that `read` answers for.
fn least(read: &dyn Fn(&Path) -> Option<String>) -> Option<u128> {
    let machine = kilobytes(&read(Path::new("/proc/meminfo"))?, "MemAvailable:")?;
    let own = own_limits(read);
    let groups = groups(read).into_iter().filter_map(|group| group.left(read));
    groups.chain(own).chain([machine]).min()
}

/// The bytes that a line such as `MemAvailable:  1024 kB` tells.
fn kilobytes(text: &str, label: &str) -> Option<u128> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u128>().ok()?.checked_mul(1024)
}

/// What the limits of the process leave; none where there is no limit.
fn own_limits(read: &dyn Fn(&Path) -> Option<String>) -> Vec<u128> {
    let proc = |file: &str| read(&Path::new("/proc/self").join(file)).unwrap_or_default();
    let (limits, status) = (proc("limits"), proc("status"));
    let left = |(label, used): (&str, &str)| {
        let line = limits.lines().find_map(|line| line.strip_prefix(label))?;
        let most: u128 = line.split_whitespace().next()?.parse().ok()?; // or "unlimited"
        Some(most.saturating_sub(kilobytes(&status, used).unwrap_or(0)))
    };
    [("Max address space", "VmSize:"), ("Max data size", "VmData:")].into_iter().filter_map(left).collect()
}

/// The files of one control group.
struct Group {
    dir: PathBuf,
    most: &'static str,
    used: &'static str,
    /// The key of the page cache that is given back as soon as memory is short.
    cache: &'static str,
}

impl Group {
    fn left(&self, read: &dyn Fn(&Path) -> Option<String>) -> Option<u128> {
        let number = |file: &str| read(&self.dir.join(file))?.trim().parse::<u128>().ok();
        let most = number(self.most)?; // or "max"
        let stat = read(&self.dir.join("memory.stat")).unwrap_or_default();
        let cache = stat.lines().find_map(|line| line.strip_prefix(self.cache)?.trim().parse::<u128>().ok());
        let used = number(self.used).unwrap_or(0).saturating_sub(cache.unwrap_or(0));
        Some(most.saturating_sub(used))
    }
}

/// The control groups of the process and all above them, each of which may have a limit.
fn groups(read: &dyn Fn(&Path) -> Option<String>) -> Vec<Group> {
    let own = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let mut found = Vec::new();
    for line in own.lines() {
        // hierarchy:controllers:path, where the second version of control groups is hierarchy 0 without controllers.
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let second = number == "0" && controllers.is_empty();
        if !second && !controllers.split(',').any(|c| c == "memory") {
            continue;
        }
        let Some(mount) = mounts.lines().find_map(|line| Mount::of(line, second)) else { continue };
        // A container sees a part of the tree: the path is then below what is mounted, or says nothing.
        let below = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
        let mut dir = mount.point;
        let (most, used, cache) = match second {
            true => ("memory.max", "memory.current", "inactive_file "),
            false => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
        };
        found.push(Group { dir: dir.clone(), most, used, cache });
        for part in below.components().filter(|c| matches!(c, Component::Normal(_))) {
            dir.push(part);
            found.push(Group { dir: dir.clone(), most, used, cache });
        }
    }
    found
}

/// Where control groups are to be seen.
struct Mount {
    /// Which part of their tree.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// From a line of `mountinfo`: id, parent, device, root, point, options, ... - type, source, more options.
    fn of(line: &str, second: bool) -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        let fits = match second {
            true => kind == "cgroup2",
            false => kind == "cgroup" && options.split(',').any(|o| o == "memory"),
        };
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        fits.then(|| Mount { root: root.into(), point: point.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What can be had where these files are.
    fn with(files: &[(&str, &str)]) -> Option<u128> {
        least(&|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| text.to_string())
        })
    }

    const MEMINFO: (&str, &str) = ("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n");

    #[test]
    fn a_machine_without_limits_gives_what_it_has() {
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[MEMINFO]), Some(4000 * 1024));
        assert!(available().is_none_or(|bytes| bytes > 0));
    }

    #[test]
    fn limits_of_the_process_count() {
        let limits = |space: &str, data: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max data size             {data}               unlimited            bytes     \n\
                 Max address space         {space}              unlimited            bytes     \n"
            )
        };
        let status = ("/proc/self/status", "Name:\tmotes\nVmSize:\t    1000 kB\nVmData:\t 300 kB\n");
        let left =
            |space, data| with(&[MEMINFO, status, ("/proc/self/limits", &limits(space, data))]).unwrap();
        assert_eq!(left("unlimited", "unlimited"), 4000 * 1024);
        assert_eq!(left("3072000", "unlimited"), 2000 * 1024);
        assert_eq!(left("3072000", "819200"), 500 * 1024);
        assert_eq!(left("1024", "unlimited"), 0);
    }

    #[test]
    fn control_groups_of_the_second_version_count_with_all_above() {
        let files = |own: &str, parent: &str| {
            with(&[
                MEMINFO,
                ("/proc/self/cgroup", "0::/jobs/this:one\n"),
                (
                    "/proc/self/mountinfo",
                    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
                ),
                ("/sys/fs/cgroup/jobs/memory.max", parent),
                ("/sys/fs/cgroup/jobs/memory.current", "100\n"),
                ("/sys/fs/cgroup/jobs/this:one/memory.max", own),
                ("/sys/fs/cgroup/jobs/this:one/memory.current", "1000\n"),
                (
                    "/sys/fs/cgroup/jobs/this:one/memory.stat",
                    "file 700\ninactive_file 600\nactive_file 100\n",
                ),
            ])
            .unwrap()
        };
        assert_eq!(files("max\n", "max\n"), 4000 * 1024);
        assert_eq!(files("2000\n", "max\n"), 1600, "what is used without the page cache");
        assert_eq!(files("2000\n", "500\n"), 400);
        assert_eq!(files("300\n", "max\n"), 0);
    }

    #[test]
    fn control_groups_of_the_first_version_and_containers_count() {
        let mounted = |root: &str| {
            with(&[
                MEMINFO,
                ("/proc/self/cgroup", "5:cpu,memory:/docker/abc\n1:name=systemd:/\n0::/\n"),
                (
                    "/proc/self/mountinfo",
                    &format!(
                        "31 23 0:28 / /sys rw - sysfs sysfs rw\n\
                         34 31 0:31 {root} /cg/cpu rw - cgroup cgroup rw,cpu\n\
                         35 31 0:32 {root} /cg/memory rw - cgroup cgroup rw,cpu,memory\n"
                    ),
                ),
                ("/cg/memory/memory.limit_in_bytes", "3000\n"),
                ("/cg/memory/memory.usage_in_bytes", "1000\n"),
                ("/cg/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 400\n"),
                ("/cg/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n"),
                ("/cg/memory/docker/abc/memory.usage_in_bytes", "1000\n"),
            ])
            .unwrap()
        };
        assert_eq!(mounted("/"), 2400);
        assert_eq!(mounted("/docker/abc"), 2400, "the container's own group is all it sees");
        assert_eq!(mounted("/elsewhere"), 2400);
    }
}
