#include "operations.h"

#include <algorithm>

#include "mvm/sys/file.h"

namespace mvm::faults {

api::SandboxSpec spec(const std::string& name) {
  api::SandboxSpec spec;
  spec.name = name;
  spec.image = "base";
  spec.memory = api::kMinMemory;
  spec.disk = api::kMinDisk;
  return spec;
}

static std::optional<api::SandboxState> state_of(World& world, const std::string& name) {
  for (const api::Sandbox& sandbox : world.client()->sandboxes(true))
    if (sandbox.name == name) return sandbox.state;
  return std::nullopt;
}

// A sandbox that is neither here nor there: whoever waited for an operation finds its outcome.
std::string undecided(World& world) {
  std::string out;
  for (const api::Sandbox& sandbox : world.client()->sandboxes(true))
    if (sandbox.state != api::SandboxState::Running && api::is_live(sandbox.state))
      out += sandbox.name + " is " + std::string(api::state_name(sandbox.state)) + "\n";
  return out;
}

static bool has_image(World& world, const std::string& name) {
  for (const api::Image& image : world.client()->images())
    if (std::find(image.names.begin(), image.names.end(), name) != image.names.end()) return true;
  return false;
}

static void remove_sandbox(World& world) {
  if (state_of(world, "web")) world.client()->remove("web", true);
}
static void have_running(World& world) {
  const auto state = state_of(world, "web");
  if (state == api::SandboxState::Running) return;
  remove_sandbox(world);
  world.client()->create(spec("web"));
}
void have_stopped(World& world) {
  have_running(world);
  world.client()->stop("web", {});
}
static void remove_tools(World& world) {
  if (has_image(world, "tools:latest")) world.client()->remove_image("tools", true);
}
static void import_tools(World& world) {
  world.client()->import_image({world.folder() + "/root", "tools"}, {});
}
static void have_tools(World& world) {
  remove_tools(world);
  import_tools(world);
}
static void import_layout(World& world) {
  world.client()->import_image({world.folder() + "/layout", "tools"}, {});
}
// What a sandbox prints, as builds do it.
static const std::string kWork = std::string(api::kFlakeKey) + "work";
static void have_builder(World& world) {
  remove_tools(world);
  have_running(world);
}
static void capture_tools(World& world) {
  api::CaptureRequest request;
  request.sandbox = "web";
  request.name = "tools";
  request.key = kWork;
  request.argv = {"print", world.folder() + "/root.tar"};
  world.client()->capture_image(request, {});
}
static void remove_all(World& world) {
  remove_tools(world);
  for (const char* name : {"adopted:latest"})
    if (has_image(world, name)) world.client()->remove_image(name, true);
  remove_sandbox(world);
}
static void have_captured(World& world) {
  remove_all(world);
  have_running(world);
  capture_tools(world);
}
static void remove_kernel(World& world) {
  for (const api::Kernel& kernel : world.client()->kernels())
    if (kernel.name == "other") world.client()->remove_kernel("other", true);
}
static void import_kernel(World& world) {
  const std::string source = world.folder() + "/kernel";
  sys::make_directories(source);
  sys::write_file_atomic(source + "/vmlinux", as_bytes("another"));
  sys::write_file_atomic(source + "/bundle.json",
                         as_bytes(R"({"name": "other", "image": "vmlinux", "modules": []})"));
  world.client()->import_kernel({source, false});
}

std::vector<Operation> operations() {
  return {
      {"create", remove_sandbox, [](World& world) { world.client()->create(spec("web")); },
       remove_sandbox},
      {"start", have_stopped, [](World& world) { world.client()->start("web", {}); },
       remove_sandbox},
      {"stop", have_running, [](World& world) { world.client()->stop("web", {}); }, remove_sandbox},
      {"remove", have_stopped, [](World& world) { world.client()->remove("web", false); },
       remove_sandbox},
      {"import", remove_tools, import_tools, remove_tools},
      {"remove image", have_tools,
       [](World& world) { world.client()->remove_image("tools", false); }, remove_tools},
      {"import layout", remove_tools, import_layout, remove_tools},
      {"capture", have_builder, capture_tools, remove_all},
      {"adopt", have_captured,
       [](World& world) { world.client()->adopt_image({kWork, "adopted"}); }, remove_all},
      {"import kernel", remove_kernel, import_kernel, remove_kernel},
  };
}

std::string act_and_tell(World& world, const Operation& operation) {
  try {
    operation.act(world);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

}
