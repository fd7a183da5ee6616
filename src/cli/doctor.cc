// `mvm doctor`: what a sandbox needs of this host, each tried, not guessed. A
// check that fails says what to do about it. The order is the order in which
// things would be missed.

#include "doctor.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/image/kernel.h"
#include "mvm/jail/cgroup.h"
#include "mvm/jail/jail.h"
#include "mvm/kvm/probe.h"
#include "mvm/net/guest_network.h"
#include "mvm/net/refusals.h"
#include "mvm/sys/file.h"

#include "doctor_network.h"
#include "json_text.h"

namespace mvm::cli {
namespace {

using Level = Check::Level;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kLittleDisk = 2 * kGiB;
constexpr uint64_t kNoDisk = 256 * kMiB;
constexpr uint64_t kLittleMemory = kGiB;
constexpr uint64_t kNoMemory = 256 * kMiB;
constexpr size_t kMaxProcFile = 64 * 1024;

Check check_user(const Context& context) {
  const uid_t user = ::geteuid();
  return {Level::Ok, "user",
          (user == 0 ? "root" : "uid " + std::to_string(user)) + ", sockets in " +
              context.paths.runtime() + ", data in " + context.paths.data(),
          ""};
}

Check check_disk(const Context& context) {
  Check check{Level::Ok, "disk", "", ""};
  // Before the first start the folder is not there; its nearest parent decides.
  std::string path = context.paths.data();
  while (path.size() > 1 && !sys::exists(path)) path.resize(std::max<size_t>(path.rfind('/'), 1));
  struct statvfs info{};
  if (::statvfs(path.c_str(), &info) != 0)
    return {Level::Warn, "disk", "the free space of " + path + " is not known", ""};
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  check.detail = format_size(free) + " free for " + context.paths.data();
  if (free < kLittleDisk) {
    check.level = free < kNoDisk ? Level::Fail : Level::Warn;
    check.way_out = "free some space, or set MVM_DATA_DIR to a folder on a larger disk";
  }
  return check;
}

// "MemAvailable:   123456 kB"
std::optional<uint64_t> available_memory() {
  const std::string text = sys::read_text_file("/proc/meminfo", kMaxProcFile);
  constexpr std::string_view kField = "MemAvailable:";
  const size_t at = text.find(kField);
  if (at == text.npos) return std::nullopt;
  const size_t digit = text.find_first_not_of(' ', at + kField.size());
  if (digit == text.npos) return std::nullopt;
  uint64_t kib = 0;
  const auto [end, error] = std::from_chars(text.data() + digit, text.data() + text.size(), kib);
  if (error != std::errc{}) return std::nullopt;
  return kib * 1024;
}

Check check_memory() {
  const auto available = available_memory();
  if (!available) return {Level::Warn, "memory", "the free memory is not known", ""};
  Check check{Level::Ok, "memory", format_size(*available) + " available", ""};
  if (*available < kLittleMemory) {
    check.level = *available < kNoMemory ? Level::Fail : Level::Warn;
    check.way_out = "end something large, or start sandboxes with less: --memory 128M";
  }
  return check;
}

Check check_mkfs(const Context& context) {
  std::vector<std::string> folders = {"/usr/sbin", "/sbin", "/usr/local/sbin"};
  const std::string path = context.variable("PATH").value_or("");
  for (const auto folder : split(path, ':')) folders.emplace_back(folder);
  for (const std::string& folder : folders)
    if (folder.starts_with('/') && ::access((folder + "/mkfs.ext4").c_str(), X_OK) == 0)
      return {Level::Ok, "mkfs.ext4", folder + "/mkfs.ext4", ""};
  return {Level::Fail, "mkfs.ext4", "not found; a sandbox's disk is made with it",
          "install the package e2fsprogs"};
}

Check check_cgroup() {
  const jail::Cgroups groups = jail::Cgroups::look();
  if (groups.available()) return {Level::Ok, "cgroup", "version 2, one for each sandbox", ""};
  return {Level::Warn, "cgroup", "sandboxes run without one: " + printable(groups.missing()),
          groups.way_out()};
}

Check check_jail() {
  const jail::HostSupport host = jail::probe_host();
  if (host.missing.empty())
    return {Level::Ok, "jail",
            "namespaces, an empty root, seccomp, Landlock " + std::to_string(host.landlock_abi),
            ""};
  return {Level::Warn, "jail", "sandboxes start without: " + printable(host.missing), host.way_out};
}

// A network as a sandbox gets one, made and thrown away.
Check check_network() {
  try {
    net::GuestNetwork network = net::make_guest_network({}, net::kMaxMtu);
    const net::Refusals refusals(std::move(network.refused));
    return {Level::Ok, "network", "a namespace with a TAP, transparent listeners, nf_tables, nflog",
            ""};
  } catch (const Error& error) {
    const Obstacle obstacle = network_obstacle(error.message());
    return {Level::Warn, "network", "sandboxes start without one: " + printable(obstacle.what),
            obstacle.way_out};
  }
}

Check check_kvm() {
  const kvm::HostSupport support = kvm::probe();
  if (support.support == kvm::Support::Usable)
    return {Level::Ok, "kvm", "/dev/kvm runs guests", ""};
  return {Level::Fail, "kvm", support.message, support.way_out};
}

// Of a kernel that seems fine: all of it is read.
std::string problem_of(const Context& context, const api::Kernel& kernel) {
  if (!kernel.problem.empty()) return kernel.problem;
  try {
    image::verify_bundle({kernel.name, context.paths.kernels_dir() + "/" + kernel.name, "", {}});
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

Check check_kernels(const Context& context, api::Service& service) {
  std::string names;
  for (const api::Kernel& kernel : service.kernels()) {
    names += (names.empty() ? "" : ", ") + kernel.name + (kernel.is_default ? " (default)" : "");
    if (const std::string problem = problem_of(context, kernel); !problem.empty())
      return {Level::Fail, "kernel", tame(problem), ""};
  }
  if (!names.empty()) return {Level::Ok, "kernel", printable(names), ""};
  return {Level::Fail, "kernel", "there is no guest kernel",
          "scripts/get-distribution-kernel gets the distribution's, "
          "scripts/build-guest-kernel builds "
          "the small one"};
}

Check check_images(api::Service& service) {
  const std::vector<api::Image> images = service.images();
  for (const api::Image& image : images)
    if (!image.problem.empty()) return {Level::Fail, "image", tame(image.problem), ""};
  const bool base = std::any_of(images.begin(), images.end(), [](const api::Image& image) {
    return image.name == "base" || image.name.starts_with("base:");
  });
  if (images.empty())
    return {Level::Fail, "image", "there is no image",
            "scripts/build-base-image makes one, `mvm image import` takes any"};
  const std::string count = std::to_string(images.size());
  if (!base)
    return {Level::Warn, "image", count + ", but none is called base, the default",
            "name one with --image or in mvm.toml"};
  return {Level::Ok, "image", count + ", base among them", ""};
}

Check check_daemon(const Context& context, api::Service& service) {
  const api::Version version = service.version();
  Check check{Level::Ok, "daemon",
              "runs, version " + printable(version.version, 40) + ", pid " +
                  std::to_string(version.pid) + ", " + std::to_string(version.sandboxes_live) +
                  " sandboxes",
              ""};
  if (version.version != context.version) {
    check.level = Level::Warn;
    check.way_out = "it is not this version, " + context.version +
                    "; after `mvm daemon stop` the next command starts the new one";
  }
  return check;
}

// What can only be asked of the daemon. It is started for that: whether it
// starts is a check too.
Check ask_daemon(Context& context, std::string_view name) {
  try {
    api::Service& service = context.service();
    if (name == "kernel") return check_kernels(context, service);
    if (name == "image") return check_images(service);
    return check_daemon(context, service);
  } catch (const Error& error) {
    return {Level::Fail, std::string(name), error.message(), "see " + context.paths.daemon_log()};
  }
}

struct Row {
  std::string_view name;
  Check (*check)(Context& context);
};
constexpr std::array kChecks = {
    Row{"kvm", [](Context&) { return check_kvm(); }},
    Row{"user", [](Context& context) { return check_user(context); }},
    Row{"memory", [](Context&) { return check_memory(); }},
    Row{"disk", [](Context& context) { return check_disk(context); }},
    Row{"mkfs.ext4", [](Context& context) { return check_mkfs(context); }},
    Row{"jail", [](Context&) { return check_jail(); }},
    Row{"network", [](Context&) { return check_network(); }},
    Row{"cgroup", [](Context&) { return check_cgroup(); }},
    Row{"daemon", [](Context& context) { return ask_daemon(context, "daemon"); }},
    Row{"kernel", [](Context& context) { return ask_daemon(context, "kernel"); }},
    Row{"image", [](Context& context) { return ask_daemon(context, "image"); }},
};

std::vector<Check> run_checks(Context& context, const Arguments& arguments) {
  const std::vector<std::string> only = arguments.values("only");
  for (const std::string& name : only) {
    if (std::ranges::any_of(kChecks, [&](const Row& row) { return row.name == name; })) continue;
    std::string known;
    for (const Row& row : kChecks) known += (known.empty() ? "" : ", ") + std::string(row.name);
    throw UsageError(&arguments.command(),
                     "there is no check '" + printable(name, 40) + "'; there are " + known);
  }
  std::vector<Check> out;
  for (const Row& row : kChecks)
    if (only.empty() || std::ranges::find(only, row.name) != only.end())
      out.push_back(row.check(context));
  return out;
}

std::string text_of(Console& console, const std::vector<Check>& checks) {
  size_t width = 0;
  for (const Check& check : checks) width = std::max(width, check.name.size());
  std::string out;
  for (const Check& check : checks) {
    const Console::Colour colour = check.level == Level::Ok     ? Console::Colour::Green
                                   : check.level == Level::Warn ? Console::Colour::Yellow
                                                                : Console::Colour::Red;
    std::string level(level_name(check.level));
    level.resize(4, ' ');
    out += console.coloured(colour, level) + "  " + check.name +
           std::string(width - check.name.size() + 2, ' ') + check.detail + '\n';
    if (!check.way_out.empty()) out += std::string(width + 8, ' ') + check.way_out + '\n';
  }
  return out;
}

}  // namespace

std::string_view level_name(Check::Level level) {
  switch (level) {
    case Level::Ok:
      return "ok";
    case Level::Warn:
      return "warn";
    case Level::Fail:
      return "fail";
  }
  return "fail";
}

int doctor(Context& context, const Arguments& arguments) {
  const std::vector<Check> checks = run_checks(context, arguments);
  const bool fine = std::none_of(checks.begin(), checks.end(),
                                 [](const Check& check) { return check.level == Level::Fail; });
  if (arguments.flag("json")) {
    context.console.out(json_checks(checks));
  } else {
    context.console.out(text_of(context.console, checks));
    if (!arguments.flag("only"))
      context.console.out(fine ? "this host can run sandboxes\n"
                               : "this host cannot run sandboxes yet\n");
  }
  return fine ? kFine : kNotWell;
}

}  // namespace mvm::cli
