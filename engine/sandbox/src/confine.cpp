#include "tessera/sandbox/confine.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "walls.h"

namespace tessera::sandbox {
namespace {

constexpr double kMaxFileBytes = 4.0 * (1ull << 30);
constexpr double kMaxFiles = 256;

// AddressSanitizer maps far more than it touches, and a limit on what is mapped would be its end;
// the supervisor's look at resident memory remains.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kMapsTerabytes = true;
#else
constexpr bool kMapsTerabytes = false;
#endif

bool confined = false;

// The limit or the hard limit that is in force already, whichever is lower.
bool limit(__rlimit_resource resource, double value) {
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return false;
  const rlim_t wanted = std::min(static_cast<rlim_t>(std::ceil(value)), now.rlim_max);
  const rlimit next{wanted, wanted};
  return ::setrlimit(resource, &next) == 0;
}

Missing set_limits(const Confinement& confinement) {
  const bool done = limit(RLIMIT_CORE, 0) && limit(RLIMIT_FSIZE, kMaxFileBytes) &&
                    limit(RLIMIT_NOFILE, kMaxFiles) && limit(RLIMIT_CPU, confinement.cpu_s) &&
                    (kMapsTerabytes || limit(RLIMIT_DATA, confinement.memory_bytes));
  if (done) return std::nullopt;
  return fmt::format("resource limits ({})", std::strerror(errno));
}

// Root keeps its name and loses its powers.
Missing drop_privileges() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return fmt::format("no new privileges ({})", std::strerror(errno));
  }
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // others of the same user cannot attach
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  if (::syscall(SYS_capset, &header, none) != 0) {
    return fmt::format("no capabilities ({})", std::strerror(errno));
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> confine(const Confinement& confinement) {
  confined = true;
  std::vector<std::string> missing;
  const auto note = [&](Missing wall) {
    if (wall) missing.push_back(std::move(*wall));
  };
  note(set_limits(confinement));
  note(drop_privileges());
  note(build_landlock(confinement));
  note(build_seccomp());  // last: it forbids what the others need
  return missing;
}

}  // namespace tessera::sandbox

#ifdef __SANITIZE_ADDRESS__
// A process behind the walls cannot look at its own memory as LeakSanitizer does at the end.
extern "C" int __lsan_is_turned_off() { return tessera::sandbox::confined ? 1 : 0; }
#endif
