// mvm mcp: finds the sandbox, decides what is redacted, and serves. Like exec it speaks to the
// sandbox's own socket.

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/mcp/server.h"
#include "mvm/sys/socket.h"

#include "audit_logs.h"
#include "refusals.h"

namespace mvm::cli {
namespace {

// Whether a sandbox protects personal data, as its daemon knows; an id's answer never changes.
// Called by many threads.
class Protection {
 public:
  Protection(Context& context, std::string name) : context_(context), name_(std::move(name)) {}

  bool of(const std::string& id) {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(id); found != known_.end()) return found->second;
    try {
      if (const auto service = context_.running_service()) {
        const api::Sandbox sandbox = service->sandbox(name_);
        const bool on = sandbox.network.pii.enabled();
        if (sandbox.id != id) return true;
        if (known_.size() >= kMostKnown) known_.clear();
        known_.emplace(id, on);
        return on;
      }
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // Not known, as without a daemon.
    }
    return true;  // what is not known is taken for protected
  }

 private:
  static constexpr size_t kMostKnown = 64;
  Context& context_;
  std::string name_;
  std::mutex mutex_;
  std::map<std::string, bool> known_;
};

mcp::Refusals refusals_of(const store::Paths& paths, const std::string& name,
                          const std::string& run) {
  const Refusals found = read_refusals(paths, find_audit_log(paths, name), run);
  mcp::Refusals out;
  // Of many, the last: a model asks for what has just failed.
  const size_t first = found.all().size() - std::min(found.all().size(), mcp::kMaxRefusals);
  out.more = found.more() + first;
  for (size_t i = first; i < found.all().size(); ++i) {
    const Refusal& each = found.all()[i];
    out.shown.push_back({each.what, each.reason, each.flag, each.audited});
  }
  return out;
}

// By the name that its socket has. A sandbox that does not run is none yet: a client starts its
// servers when it starts itself, and each call says what is missing.
std::string served_name(Context& context, const std::string& asked) {
  if (sys::connect_unix(context.paths.control_socket(asked))) return asked;
  const api::Sandbox sandbox = context.service().sandbox(asked);  // throws when there is none
  if (!is_live(sandbox.state))
    context.console.err("mvm: sandbox '" + sandbox.name + "' is " +
                        std::string(state_name(sandbox.state)) + "; `mvm up " + sandbox.name +
                        "` starts it\n");
  return sandbox.name;
}

}

int mcp(Context& context, const Arguments& arguments) {
  if (arguments.flag("redact") && arguments.flag("no-redact"))
    throw UsageError(&arguments.command(), "--redact and --no-redact contradict");
  mcp::Target target;
  target.name = served_name(context, sandbox_name(arguments));
  target.control_socket = context.paths.control_socket(target.name);
  Protection protection(context, target.name);
  if (arguments.flag("redact") || arguments.flag("no-redact"))
    target.redacts = [on = arguments.flag("redact")](const std::string&) { return on; };
  else
    target.redacts = [&protection](const std::string& id) { return protection.of(id); };
  target.refusals = [&context, &target](const std::string& run) {
    return refusals_of(context.paths, target.name, run);
  };
  mcp::ServerOptions options;
  options.in = STDIN_FILENO;
  options.out = STDOUT_FILENO;
  options.version = context.version;
  mcp::serve(target, options);
  return kFine;
}

}
