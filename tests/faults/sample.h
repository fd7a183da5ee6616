#pragma once
// Which calls of an operation a test takes: 1, 2, … or as many as fit a unit test, spread evenly,
// and the same ones each time. MVM_FAULTS=all takes each; MVM_FAULT_SEED=N begins at other offsets.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace mvm::faults {

// Under a sanitizer fewer of everything: what it looks for shows at once or never.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSlow = true;
#else
inline constexpr bool kSlow = false;
#endif

class Sample {
 public:
  static constexpr unsigned kSeed = 1;

  explicit Sample(int step) {
    const char* all = std::getenv("MVM_FAULTS");
    step_ = all != nullptr && std::string_view(all) == "all" ? 1 : step;
    const char* seed = std::getenv("MVM_FAULT_SEED");
    const unsigned chosen = seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : kSeed;
    std::printf("MVM_FAULT_SEED=%u, every %d. call\n", chosen, step_);
    random_.seed(chosen);
  }
  int first() { return 1 + static_cast<int>(random_() % static_cast<unsigned>(step_)); }
  int step() const { return step_; }

 private:
  int step_ = 1;
  std::mt19937 random_;
};

inline std::string error_name(const testing::TestParamInfo<int>& parameter) {
  switch (parameter.param) {
    case ENOSPC:
      return "ENOSPC";
    case EMFILE:
      return "EMFILE";
    case ENOMEM:
      return "ENOMEM";
    case EINTR:
      return "EINTR";
    default:
      return "SIGKILL";
  }
}

}
