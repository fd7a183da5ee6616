#include "sandbox_builder.h"

#include <algorithm>
#include <set>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "mvm/agent/exec.h"
#include "mvm/audit/reader.h"
#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "audit_logs.h"
#include "builder_queue.h"
#include "image_progress.h"
#include "presets.h"
#include "progress.h"

namespace mvm::cli {
namespace {

constexpr int kLookMs = 200;  // a lock that is let go of tells nobody
constexpr uint64_t kIdleMs = 10ULL * 60 * 1000;
constexpr size_t kMaxRefusals = 8;  // that are named
constexpr size_t kMaxHolder = 64;

api::SandboxSpec builder_spec(const config::Settings& settings) {
  api::SandboxSpec spec;
  spec.name = kBuilderName;
  spec.image = settings.builder_image.value_or("");
  spec.kernel = settings.kernel.value_or("");
  spec.cpus = static_cast<uint32_t>(settings.builder_cpus.value_or(0));
  if (spec.cpus == 0) {
    const long host = ::sysconf(_SC_NPROCESSORS_ONLN);
    spec.cpus = static_cast<uint32_t>(std::clamp<long>(host, 1, api::kMaxCpus));
  }
  spec.memory = settings.builder_memory.value_or(spec.memory);
  spec.disk = settings.builder_disk.value_or(spec.disk);
  // The store has a disk of its own, so that the builder can be made anew around it.
  spec.kept_disk = {std::string(kBuilderName), std::string(kStorePlace), spec.disk};
  spec.user = "0:0";
  spec.workdir = "/";
  spec.labels = {{std::string(kBuilderLabel), "builder"}};
  spec.limits.idle_timeout_ms = kIdleMs;
  if (settings.boot_timeout_ms) spec.boot_timeout_ms = *settings.boot_timeout_ms;
  spec.network.allow_hosts = settings.builder_allow_hosts;
  if (settings.builder_network == "nix")
    for (std::string& host : preset_hosts("nix", [] { return std::vector<std::string>{}; }))
      spec.network.allow_hosts.push_back(std::move(host));
  return spec;
}

// What of the builder is not as the settings say.
std::string builder_differences(api::Service& service, const api::Sandbox& have,
                                const api::SandboxSpec& want) {
  std::string names;
  const auto differs = [&](bool really, const char* name) {
    if (really) names += (names.empty() ? "" : ", ") + std::string(name);
  };
  differs(have.image_digest != service.image(want.image).digest, "image");
  differs(have.cpus != want.cpus, "cpus");
  differs(have.memory != want.memory, "mem");
  differs(have.disk != want.disk, "disk");
  differs(have.network != want.network, "network");
  return names;
}

}

BuilderTurn::BuilderTurn(Context& context, int interrupt) {
  const std::string path = context.paths.builder_lock();
  context.paths.ensure_data();
  const Ticket ticket(context.paths);
  bool told = false;
  while (true) {
    auto lock = ticket.is_first() ? sys::try_lock_file(path) : std::nullopt;
    if (lock) {
      lock_ = std::move(*lock);
      break;
    }
    if (!told) {
      const auto holder = builder_user(context);
      context.console.err("mvm: waiting for another build to end" +
                          (holder ? " (process " + *holder + ")" : std::string()) + "\n");
      told = true;
    }
    pollfd entry{interrupt, POLLIN, 0};
    if (::poll(&entry, 1, kLookMs) > 0) throw Error(Kind::Unavailable, "interrupted");
  }
  const std::string self = std::to_string(::getpid());
  sys::resize_file(lock_.get(), 0, "writing " + path);
  sys::pwrite_all(lock_.get(), as_bytes(self), 0);
}

std::optional<std::string> builder_user(const Context& context) {
  const std::string path = context.paths.builder_lock();
  if (!sys::exists(path) || sys::try_lock_file(path)) return std::nullopt;
  const std::string text = sys::read_own_text_file(path, kMaxHolder);
  return parse_u64(text) ? text : std::string("not known");
}

std::optional<api::Sandbox> find_builder(api::Service& service) {
  try {
    api::Sandbox sandbox = service.sandbox(std::string(kBuilderName));
    if (const auto label = sandbox.labels.find(std::string(kBuilderLabel));
        label == sandbox.labels.end() || label->second != "builder")
      throw api::ApiError(Kind::Conflict,
                          "sandbox " + sandbox.name + " is not mvm's builder, and has its name",
                          "mvm rm -f " + sandbox.name + " makes room");
    return sandbox;
  } catch (const Error& error) {
    if (error.kind() != Kind::NotFound) throw;
    return std::nullopt;
  }
}

void renew_builder(Context& context, const config::Settings& settings, bool quiet) {
  api::Service& service = context.service();
  const auto found = find_builder(service);
  if (!found) return;
  const std::string differences = builder_differences(service, *found, builder_spec(settings));
  if (differences.empty()) return;
  if (!quiet)
    context.console.err("mvm: the builder is made anew, around its store; changed: " + differences +
                        "\n");
  // In good order: Nix does not sync what it builds, and has it in its database all the same.
  if (api::is_live(found->state)) service.stop(found->name, {});
  service.remove(found->name, true);
}

api::Sandbox start_builder(Context& context, const config::Settings& settings, bool quiet) {
  api::Service& service = context.service();
  const api::SandboxSpec spec = builder_spec(settings);
  const Waiting waiting(context.console, "starting the builder", quiet);
  const auto found = find_builder(service);
  if (!found) return service.create(spec);
  if (found->state == api::SandboxState::Running) return *found;
  api::StartRequest request;
  request.boot_timeout_ms = spec.boot_timeout_ms;
  return service.start(found->name, request);
}

std::string SandboxBuilder::identity() {
  const std::string image = settings_.builder_image.value_or("");
  ensure_image(context_, image, quiet_);
  try {
    return context_.service().image(image).digest;
  } catch (const Error& error) {
    if (error.kind() != Kind::NotFound) throw;
    throw api::ApiError(
        Kind::NotFound, "there is no image '" + printable(image, 80) + "' for the builder",
        "mvm image import $(scripts/build-builder-image) " + std::string(kBuilderName) +
            "; or another with Nix and git, named by [builder] image (docs/build.md)");
  }
}

agent::Connection& SandboxBuilder::connection() {
  if (!turn_) turn_.emplace(context_, interrupt_);
  bool made = false;
  if (!sandbox_) {
    renew_builder(context_, settings_, quiet_);
    made = !find_builder(context_.service());
    sandbox_ = start_builder(context_, settings_, quiet_);
    if (!sandbox_->network_missing.empty())
      context_.console.err("mvm: the builder has no network: " + tame(sandbox_->network_missing) +
                           "\n");
    audit::for_each_record(context_.paths.audit_log(sandbox_->id),
                           [&](std::string_view, const audit::Line&) { ++records_before_; });
  }
  if (!connection_) {
    connection_ = agent::Connection::connect(sandbox_->control_socket, interrupt_);
    connection_->set_dial(
        agent::dial_by_socket(context_.paths.vsock_socket(sandbox_->name), interrupt_));
  }
  if (made) require_nix();
  return *connection_;
}

// An image whose programs are in /nix themselves (nixos/nix) has them where the store's disk is: on
// a disk that another image began they are not.
void SandboxBuilder::require_nix() {
  proto::ExecRequest request;
  request.argv = {"nix", "--version"};
  std::string why;
  try {
    const auto result = agent::run_command(*connection_, request, [](agent::Stream, ByteView) {});
    if (result.exit_code == 0 && result.signal == 0) return;
    why = "it ends with " + std::to_string(result.exit_code);
  } catch (const Error& error) {
    if (error.kind() != Kind::NotFound) throw;
    why = error.message();
  }
  context_.service().remove(sandbox_->name, true);
  throw api::ApiError(Kind::Unavailable,
                      "Nix does not run in the builder of image " + printable(sandbox_->image, 80) +
                          ": " + tame(why),
                      "if the store was begun by another image: mvm builder reset removes it");
}

std::optional<api::Image> SandboxBuilder::adopt(const api::AdoptRequest& request) {
  try {
    return context_.service().adopt_image(request);
  } catch (const Error& error) {
    if (error.kind() != Kind::NotFound) throw;
    return std::nullopt;
  }
}

api::Image SandboxBuilder::capture(api::CaptureRequest request) {
  request.sandbox = sandbox_->name;
  ImageProgress line(context_.console, request.name, quiet_);
  const auto progress = [&](const api::ImportProgress& now) {
    pollfd entry{interrupt_, POLLIN, 0};
    if (::poll(&entry, 1, 0) > 0) return false;
    line.show(now);
    return true;
  };
  api::Image image = context_.service().capture_image(request, progress);
  context_.console.clear_progress();
  return image;
}

std::string SandboxBuilder::install_kernel(const std::string& bundle) {
  return context_.service().import_kernel({bundle, false, true}).name;
}

std::string SandboxBuilder::refused() const {
  if (!sandbox_) return "";
  std::set<std::string> places;
  uint64_t records = 0;
  audit::for_each_record(
      context_.paths.audit_log(sandbox_->id), [&](std::string_view, const audit::Line& line) {
        if (++records <= records_before_ || !is_egress(line) || line.field("outcome") != "deny")
          return;
        std::string place(line.field("host").empty() ? line.field("address") : line.field("host"));
        if (!place.empty() && places.size() < kMaxRefusals) places.insert(printable(place, 80));
      });
  std::string out;
  for (const std::string& place : places) out += (out.empty() ? "" : ", ") + place;
  return out;
}

std::optional<std::string> SandboxBuilder::ended() const {
  if (!sandbox_) return std::nullopt;
  constexpr uint64_t kPatienceMs = 5'000;
  const api::Sandbox now = context_.service().wait(sandbox_->name, {kPatienceMs});
  if (is_live(now.state) || !now.end) return std::nullopt;
  std::string text =
      "the builder has ended: " + std::string(proto::end_reason_name(now.end->reason));
  if (!now.end->detail.empty()) text += ": " + tame(now.end->detail);
  return text;
}

}
