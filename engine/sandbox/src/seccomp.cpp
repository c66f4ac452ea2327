// A seccomp filter as raw BPF. It forbids new programs and processes, sockets, every other process,
// and what administers the machine; a system call that it does not know is not there.

#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "walls.h"

namespace tessera::sandbox {
namespace {

#if defined(__x86_64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr unsigned kArchitecture = 0;
#endif

// The newest call that was weighed here; later kernels may have calls that start processes.
constexpr unsigned kLastKnownCall = 462;  // mseal

constexpr long kForbidden[] = {
    // programs and processes
    SYS_execve, SYS_execveat, SYS_unshare, SYS_setns, SYS_setsid, SYS_setpgid,
#ifdef SYS_fork
    SYS_fork, SYS_vfork,
#endif
    // sockets and the kernel's mailboxes
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4,
    SYS_mq_open, SYS_shmget, SYS_shmat, SYS_semget, SYS_msgget,
    // other processes
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kill, SYS_tkill,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_kcmp, SYS_setpriority, SYS_ioprio_set,
    SYS_sched_setscheduler, SYS_sched_setattr, SYS_migrate_pages, SYS_move_pages,
    424 /* pidfd_send_signal */, 434 /* pidfd_open */, 438 /* pidfd_getfd */,
    440 /* process_madvise */, 448 /* process_mrelease */,
    // ways around the filter, or into the kernel
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_memfd_create, SYS_keyctl, SYS_add_key,
    SYS_request_key, SYS_fanotify_init, SYS_name_to_handle_at, SYS_open_by_handle_at,
    425 /* io_uring_setup */, 426 /* io_uring_enter */, 427 /* io_uring_register */,
    447 /* memfd_secret */, SYS_personality, SYS_vhangup,
#ifdef SYS_iopl
    SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib,
#endif
    // file systems, links, and rights
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, 428 /* open_tree */, 429 /* move_mount */,
    430 /* fsopen */, 431 /* fsconfig */, 432 /* fsmount */, 433 /* fspick */,
    442 /* mount_setattr */, SYS_linkat, SYS_symlinkat, SYS_mknodat, SYS_fchmodat, SYS_fchownat,
    SYS_fchown, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr,
#ifdef SYS_link
    SYS_link, SYS_symlink, SYS_mknod, SYS_chmod, SYS_chown, SYS_lchown,
#endif
    SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups,
    SYS_setfsuid, SYS_setfsgid, SYS_capset,
    // the machine
    SYS_reboot, SYS_swapon, SYS_swapoff, SYS_sethostname, SYS_setdomainname, SYS_settimeofday,
    SYS_clock_settime, SYS_adjtimex, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_kexec_load, SYS_acct, SYS_quotactl, SYS_syslog};

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
    answer(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
    // Also the x32 calls of x86-64, which begin far above.
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kLastKnownCall, 0, 1));
    answer(SECCOMP_RET_ERRNO | ENOSYS);
  }

  void forbid(long call) { on(call, {}, SECCOMP_RET_ERRNO | EPERM); }

  // glibc then starts threads by clone, whose flags can be looked at.
  void hide(long call) { on(call, {}, SECCOMP_RET_ERRNO | ENOSYS); }

  // Only where the low half of the argument has the bits, or the value.
  void need_bits(long call, unsigned argument, unsigned bits) {
    on(call, {low(argument), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, kSkipAnswer, 0)},
       SECCOMP_RET_ERRNO | EPERM);
  }
  void need_value(long call, unsigned argument, unsigned value) {
    on(call, {low(argument), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, kSkipAnswer, 0)},
       SECCOMP_RET_ERRNO | EPERM);
  }
  void forbid_value(long call, unsigned argument, unsigned value) {
    on(call, {low(argument), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, kSkipAnswer)},
       SECCOMP_RET_ERRNO | EPERM);
  }

  bool install() {
    answer(SECCOMP_RET_ALLOW);
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
  }

 private:
  static constexpr unsigned char kSkipAnswer = 1;

  void load(std::size_t offset) {
    code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset)));
  }
  void answer(unsigned action) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }

  static sock_filter low(unsigned argument) {  // both architectures are little-endian
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                    static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * argument));
  }

  void on(long call, const std::vector<sock_filter>& condition, unsigned action) {
    const auto skip = static_cast<unsigned char>(condition.size() + (condition.empty() ? 1 : 2));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, skip));
    code_.insert(code_.end(), condition.begin(), condition.end());
    answer(action);
    if (!condition.empty()) load(offsetof(seccomp_data, nr));  // for the next comparison
  }

  std::vector<sock_filter> code_;
};

}  // namespace

Missing build_seccomp() {
  if (kArchitecture == 0) return "seccomp (not known for this processor)";
  Filter filter;
  const auto own_id = static_cast<unsigned>(::getpid());
  filter.hide(SYS_clone3);
  filter.need_bits(SYS_clone, 0, CLONE_THREAD);
  filter.need_value(SYS_tgkill, 0, own_id);  // signals between its own threads
  filter.need_value(SYS_prlimit64, 0, 0);
  filter.need_value(SYS_sched_setaffinity, 0, 0);
  filter.forbid_value(SYS_ioctl, 1, TIOCSTI);  // typing into the user's terminal
  filter.forbid_value(SYS_ioctl, 1, 0x541C);   // TIOCLINUX
  for (const long call : kForbidden) filter.forbid(call);
  if (filter.install()) return std::nullopt;
  return fmt::format("seccomp ({})", std::strerror(errno));
}

}  // namespace tessera::sandbox
