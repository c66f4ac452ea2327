// The main of every test program. It prints what failed, what was skipped and why, and, when the
// program ends before its time, in which case: ctest runs whole programs, not case by case.
//   TESSERA_CASE_TIMEOUT_S=N  a case that takes longer ends the program (default: 300)
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace {

char running[512];  // the case, for handlers of signals: they may not allocate

void say_which() {
  if (running[0] == '\0') return;
  for (const char* part : {"\nthe program ended in ", static_cast<const char*>(running), "\n"}) {
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) return;
  }
}

void on_signal(int number) {
  say_which();
  const char* why = number == SIGALRM ? "it took longer than TESSERA_CASE_TIMEOUT_S\n" : "";
  if (write(STDERR_FILENO, why, std::strlen(why)) < 0) return;
  raise(number);  // SA_RESETHAND has brought the default action back
}

void watch_signals() {
  static char stack[65536];  // an overflow of the usual one is among what is told
  stack_t alternative{};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND | SA_NODEFER);
  for (const int number : {SIGABRT, SIGALRM, SIGTERM}) sigaction(number, &action, nullptr);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_set_death_callback(say_which);
#else
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(number, &action, nullptr);
#endif
}

class Watch : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    std::snprintf(running, sizeof running, "%s.%s", test.test_suite_name(), test.name());
    const char* limit_s = std::getenv("TESSERA_CASE_TIMEOUT_S");
    alarm(limit_s == nullptr ? 300 : static_cast<unsigned>(std::atoi(limit_s)));
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    alarm(0);
    running[0] = '\0';
    const testing::TestResult& result = *test.result();
    for (int i = 0; result.Skipped() && i < result.total_part_count(); ++i) {
      std::printf("skipped: %s.%s: %s\n", test.test_suite_name(), test.name(),
                  result.GetTestPartResult(i).message());
    }
    std::fflush(stdout);
  }
};

}  // namespace

int main(int argc, char** argv) {
  GTEST_FLAG_SET(brief, true);
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new Watch);
  watch_signals();
  return RUN_ALL_TESTS();
}
