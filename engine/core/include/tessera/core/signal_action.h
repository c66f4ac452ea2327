#pragma once

#include <csignal>

namespace tessera {

/// What a signal does while this lives; afterwards what it did before.
class SignalAction {
 public:
  /// @param handler a function that may run at any moment, or SIG_IGN
  SignalAction(int signal, void (*handler)(int)) : signal_(signal) {
    struct sigaction action {};
    action.sa_handler = handler;
    ::sigaction(signal_, &action, &before_);
  }
  ~SignalAction() { ::sigaction(signal_, &before_, nullptr); }
  SignalAction(const SignalAction&) = delete;
  SignalAction& operator=(const SignalAction&) = delete;

 private:
  int signal_;
  struct sigaction before_ {};
};

}  // namespace tessera
