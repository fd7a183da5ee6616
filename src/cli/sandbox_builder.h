#pragma once
// The builder as it is: a sandbox of a fixed name, which this makes and starts when it is needed
// and which ends by itself some time after. One build at a time: a lock file says whose turn it is.

#include <optional>
#include <string>

#include "mvm/build/build.h"
#include "mvm/cli/context.h"
#include "mvm/config/settings.h"

#include "terminal.h"

namespace mvm::cli {

inline constexpr std::string_view kBuilderName = "mvm-builder";
inline constexpr std::string_view kBuilderLabel = "mvm.role";  // = builder
inline constexpr std::string_view kStorePlace = "/nix";        // of its kept disk

// Nobody else builds while this lives. Waits, says for whom, and gives up when `interrupt` becomes
// readable (Error{Unavailable}).
class BuilderTurn {
 public:
  BuilderTurn(Context& context, int interrupt);

 private:
  sys::Fd lock_;
};
// The process that has its turn now; nothing when nobody has.
std::optional<std::string> builder_user(const Context& context);

// The sandbox, where there is one. Throws Error{Conflict} when a sandbox of that name is somebody
// else's.
std::optional<api::Sandbox> find_builder(api::Service& service);
// Removes one that is not as the settings say; its store stays. Whoever calls has the turn.
void renew_builder(Context& context, const config::Settings& settings, bool quiet);
// Running, and made where there is none.
api::Sandbox start_builder(Context& context, const config::Settings& settings, bool quiet);

class SandboxBuilder final : public build::Builder {
 public:
  // `interrupt` is borrowed.
  SandboxBuilder(Context& context, const config::Settings& settings, bool quiet, int interrupt)
      : context_(context), settings_(settings), quiet_(quiet), interrupt_(interrupt) {}

  std::string identity() override;
  agent::Connection& connection() override;
  std::optional<api::Image> adopt(const api::AdoptRequest& request) override;
  api::Image capture(api::CaptureRequest request) override;
  std::string install_kernel(const std::string& bundle) override;

  // What its network refused since the build began, for people; empty when nothing was.
  std::string refused() const;
  // Why the sandbox is no more, when it ended under a build.
  std::optional<std::string> ended() const;

 private:
  void require_nix();

  Context& context_;
  const config::Settings& settings_;
  bool quiet_;
  int interrupt_;
  std::optional<BuilderTurn> turn_;
  std::optional<api::Sandbox> sandbox_;
  std::optional<agent::Connection> connection_;
  uint64_t records_before_ = 0;  // of its audit log
};

}
