#include "sandbox_link.h"

#include "mvm/sys/socket.h"

namespace mvm::cli {

SandboxLink link_sandbox(Context& context, const std::string& name) {
  if (auto fd = sys::connect_unix(context.paths.control_socket(name)))
    return {std::move(*fd), context.paths.vsock_socket(name)};
  const api::Sandbox sandbox = context.service().sandbox(name);  // throws when there is none
  // An id was given, or it has started since.
  if (auto fd = sys::connect_unix(sandbox.control_socket))
    return {std::move(*fd), context.paths.vsock_socket(sandbox.name)};
  if (is_live(sandbox.state))
    throw api::ApiError(Kind::Unavailable,
                        "sandbox '" + sandbox.name + "' is " +
                            std::string(state_name(sandbox.state)) + " and does not answer",
                        "mvm logs " + sandbox.name + " shows its console");
  std::string why = "sandbox '" + sandbox.name + "' is " + std::string(state_name(sandbox.state));
  if (sandbox.end && !sandbox.end->detail.empty()) why += ": " + sandbox.end->detail;
  throw api::ApiError(Kind::Conflict, why, "mvm up " + sandbox.name + " starts it");
}

sys::Fd connect_sandbox(Context& context, const std::string& name) {
  return link_sandbox(context, name).control;
}

}
