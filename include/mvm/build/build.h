#pragma once
// A build: a flake's files into the builder, Nix there, and the result out as an image. The builder
// is a sandbox like any other; what it says is hostile, and nothing here depends on it being well
// behaved but the image itself.
//
// What is built again although nothing changed is not built again: the key of an image is made of
// the sources, the attribute, the overridden inputs and the builder's image.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mvm/agent/connection.h"
#include "mvm/api/types.h"
#include "mvm/build/flake.h"

namespace mvm::build {

// Where builds happen.
class Builder {
 public:
  virtual ~Builder() = default;
  // What its tools are: builds by others are other builds.
  virtual std::string identity() = 0;
  // Waits for its turn, and starts it where it does not run. From here on nobody else builds.
  virtual agent::Connection& connection() = 0;
  // What was built under this key, after giving it the name; nothing when there is none.
  virtual std::optional<api::Image> adopt(const api::AdoptRequest& request) = 0;
  // `request.sandbox` is for it to fill.
  virtual api::Image capture(api::CaptureRequest request) = 0;
  // A kernel that came along, in a folder here.
  virtual std::string install_kernel(const std::string& bundle) = 0;
};

struct Request {
  FlakeRef flake;
  std::string directory;  // absolute; where a local flake's path starts
  std::string name;       // of the image
  // Inputs that are taken from folders here (absolute): nix build --override-input.
  std::vector<std::pair<std::string, std::string>> overrides;
  bool update_lock = false;  // flake.lock is brought up to date first, and written back
  bool offline = false;      // Nix asks the network for nothing
  bool verbose = false;      // what builds print is passed on as well
  agent::Limit timeout;      // of all of it, from when it has the builder
};

struct Watch {
  std::function<void(const std::string& step)> step;  // what is being done
  std::function<void(std::string_view text)> log;     // what Nix says, as it says it
};

struct Result {
  api::Image image;
  bool unchanged = false;     // nothing was built
  bool lock_changed = false;  // flake.lock was written
  std::string kernel;         // name of one that was installed with it
};

// It does not build, for a reason of the flake's own; `said` is what Nix said of it, as hostile as
// the builder.
class BuildFailed : public api::ApiError {
 public:
  BuildFailed(std::string message, std::string hint, std::string said)
      : ApiError(Kind::Invalid, std::move(message), std::move(hint)), said_(std::move(said)) {}
  const std::string& said() const { return said_; }

 private:
  std::string said_;
};

inline constexpr size_t kMaxOverrides = 32;

// Throws BuildFailed, Error{Timeout}, and what the parts throw: Source, Connection, Builder.
Result build(Builder& builder, const Request& request, const Watch& watch);

}
