// mvm build: a flake becomes an image. What happens is in module build; this says with what, and
// what is told of it.

#include "mvm/build/build.h"

#include <array>
#include <chrono>
#include <csignal>

#include "mvm/base/text.h"
#include "mvm/build/watch.h"
#include "mvm/cli/actions.h"

#include "json_text.h"
#include "sandbox_builder.h"
#include "settings.h"

namespace mvm::cli {
namespace {

struct Wanted {
  config::Settings settings;
  build::Request request;
  bool verbose = false;
  bool quiet = false;
};

// The flake and which of its packages; two ways to say the latter must agree.
build::FlakeRef flake_of(const config::Settings& settings) {
  const std::string text = settings.flake.value_or("");
  build::FlakeRef flake = build::parse_flake(text.empty() ? "." : text);
  const std::string profile = settings.flake_profile.value_or("");
  if (!profile.empty() && !flake.attribute.empty() && flake.attribute != profile)
    throw Error(Kind::Invalid, "the flake '" + printable(text, 80) + "' names one package, and " +
                                   "flake_profile (--package) another");
  if (!profile.empty()) {
    if (const std::string complaint = build::attribute_complaint(profile); !complaint.empty())
      throw Error(Kind::Invalid, "flake_profile: " + complaint);
    flake.attribute = profile;
  }
  return flake;
}

// The last line of what comes in pieces.
class LastLine {
 public:
  void add(std::string_view text) {
    for (const char c : text) {
      if (c == '\n') {
        if (!line_.empty()) shown_ = line_;
        line_.clear();
      } else if (line_.size() < 200) {
        line_ += c;
      }
    }
  }
  const std::string& text() const { return shown_; }

 private:
  std::string line_;
  std::string shown_;
};

build::Watch watch_of(Console& console, const Wanted& wanted, LastLine& last) {
  build::Watch watch;
  if (wanted.quiet) return watch;
  watch.step = [&console, &wanted](const std::string& step) {
    if (wanted.verbose)
      console.err("mvm: " + step + "\n");
    else
      console.progress(step);
  };
  watch.log = [&console, &wanted, &last](std::string_view text) {
    if (wanted.verbose) return console.err(tame(text));
    last.add(text);
    if (!last.text().empty()) console.progress(printable(last.text(), 100));
  };
  return watch;
}

// What a failed build leaves for people.
int report_failure(Context& context, const SandboxBuilder& builder,
                   const build::BuildFailed& failure, bool verbose) {
  Console& console = context.console;
  // With -v it has been printed.
  if (!verbose && !failure.said().empty()) console.err(tame(failure.said()) + "\n");
  console.err("mvm: " + tame(failure.message()) + "\n");
  if (!failure.hint().empty()) console.err("  " + tame(failure.hint()) + "\n");
  if (const std::string refused = builder.refused(); !refused.empty())
    console.err("  the builder's network refused: " + refused +
                "; [builder] allow_hosts admits more\n");
  return kNotWell;
}

// Interrupted, the build inside has to end too: only a process that goes on can see to that.
constexpr std::array kTaken = {SIGINT, SIGTERM, SIGHUP};

// Builds, and tells of what went wrong. Nothing: `code` is the exit code.
std::optional<build::Result> run_build(Context& context, const Wanted& wanted, SignalQueue& signals,
                                       int& code) {
  Console& console = context.console;
  SandboxBuilder builder(context, wanted.settings, wanted.quiet, signals.fd());
  LastLine last;
  const build::Watch watch = watch_of(console, wanted, last);
  try {
    auto result = build::build(builder, wanted.request, watch);
    console.clear_progress();
    return result;
  } catch (const build::BuildFailed& failure) {
    console.clear_progress();
    code = report_failure(context, builder, failure, wanted.verbose);
  } catch (const Error& error) {
    console.clear_progress();
    if (const auto number = signals.next()) {
      console.err("mvm: interrupted; the build has been ended\n");
      code = 128 + *number;
    } else if (error.kind() == Kind::Timeout) {
      console.err("mvm: " + tame(error.message()) + "\n");
      code = kTimedOut;
    } else if (error.kind() == Kind::Unavailable) {
      const auto ended = builder.ended();
      if (!ended) throw;
      throw Error(Kind::Unavailable, *ended);
    } else {
      throw;
    }
  }
  return std::nullopt;
}

Wanted wanted_of(const Context& context, const config::Settings& settings,
                 const std::string& name) {
  Wanted wanted;
  wanted.settings = settings;
  wanted.request.flake = flake_of(settings);
  wanted.request.directory = context.directory.empty() ? "/" : context.directory;
  wanted.request.name = name;
  wanted.request.offline = settings.builder_network == "none";
  if (const uint64_t limit = settings.build_timeout_ms.value_or(0); limit != 0)
    wanted.request.timeout = std::chrono::milliseconds(limit);
  return wanted;
}

// "web" of "packages.x86_64-linux.web".
std::string last_word(const std::string& attribute) {
  return attribute.substr(attribute.rfind('.') + 1);
}

std::string image_name(const Context& context, const config::Settings& settings) {
  if (settings.name) return *settings.name;
  const build::FlakeRef flake = flake_of(settings);
  std::string name = folder_name(context);
  if (!flake.attribute.empty() && last_word(flake.attribute) != "default")
    name += "-" + last_word(flake.attribute);
  if (const auto complaint = name_complaint(name))
    throw Error(Kind::Invalid, "'" + printable(name, 80) + "' cannot name an image (" + *complaint +
                                   "); give one with --name");
  return name;
}

}

namespace {

void tell_of(Context& context, const BuildOptions& options, const Wanted& wanted,
             const build::Result& result, const std::string& time) {
  if (options.json) {
    context.console.out("{\"image\":" + api::encode(result.image) +
                        ",\"unchanged\":" + (result.unchanged ? "true" : "false") +
                        ",\"lock_changed\":" + (result.lock_changed ? "true" : "false") + "}\n");
    return;
  }
  if (options.quiet) return;
  if (result.lock_changed) context.console.out("flake.lock is brought up to date\n");
  if (!result.kernel.empty())
    context.console.out("kernel " + printable(result.kernel, 80) +
                        " is installed; the image is started with it\n");
  context.console.out("image " + wanted.request.name + ": " +
                      (result.unchanged ? "nothing has changed" : format_size(result.image.size)) +
                      ", " + result.image.digest.substr(0, 12) + " (" + time + ")\n");
}

std::unique_ptr<build::SourceWatch> watch_sources(Context& context, const Wanted& wanted) {
  const build::FlakeRef& flake = wanted.request.flake;
  if (!flake.remote.empty())
    throw Error(Kind::Invalid, "--watch: the flake is not in a folder here");
  Context there = context;
  there.directory = wanted.request.directory;
  std::vector<build::Source> sources{
      build::find_source(there.absolute(flake.local), flake.subdirectory,
                         flake.submodules ? build::Submodules::Taken : build::Submodules::LeftOut)};
  for (const auto& [input, folder] : wanted.request.overrides)
    sources.push_back(build::input_source(folder));
  auto watch = std::make_unique<build::SourceWatch>(sources);
  if (watch->left_out() > 0)
    context.console.err("mvm: not all folders are watched: there are more than " +
                        std::to_string(build::kMaxWatched) +
                        ", or than fs.inotify.max_user_watches\n");
  return watch;
}

// Once more whenever the source has changed, until Ctrl-C. What is wrong with the flake is for its
// author to mend.
int build_again_and_again(Context& context, const BuildOptions& options, Wanted& wanted) {
  constexpr std::chrono::milliseconds kQuiet{200};
  constexpr std::chrono::milliseconds kLongest{2000};
  SignalQueue signals(kTaken);
  std::unique_ptr<build::SourceWatch> watch;
  std::string told;  // the digest that was
  while (true) {
    try {
      // Before the build, so that a change during it counts.
      watch = watch_sources(context, wanted);
      const auto start = std::chrono::steady_clock::now();
      int code = kFailed;
      const auto result = run_build(context, wanted, signals, code);
      if (!result && code > 128) return code;
      if (result && (!result->unchanged || result->image.digest != told))
        tell_of(context, options, wanted, *result, seconds_since(start));
      if (result) told = result->image.digest;
      if (result) wanted.request.update_lock = false;
    } catch (const Error& error) {
      if (!watch || (error.kind() != Kind::Invalid && error.kind() != Kind::NotFound)) throw;
      context.console.err("mvm: " + tame(error.message()) + "\n");
    }
    if (!wanted.quiet) context.console.progress("waiting for a change; Ctrl-C ends");
    const bool changed = watch->wait(signals.fd(), kQuiet, kLongest);
    context.console.clear_progress();
    if (!changed) return 128 + signals.next().value_or(SIGINT);
  }
}

}

int build_flake(Context& context, const BuildOptions& options) {
  Context here = context;
  here.directory = context.absolute(options.directory);
  while (here.directory.ends_with("/.") ||
         (here.directory.ends_with('/') && here.directory.size() > 1))
    here.directory.resize(here.directory.rfind('/'));
  const config::Settings settings = decide(here, options.flags, {}, std::nullopt).resolved.settings;
  Wanted wanted = wanted_of(here, settings, image_name(here, settings));
  for (const auto& [input, folder] : options.overrides)
    wanted.request.overrides.emplace_back(input, context.absolute(folder));
  wanted.request.update_lock = options.update_lock;
  wanted.request.verbose = options.verbose;
  wanted.verbose = options.verbose;
  wanted.quiet = options.quiet;

  if (options.watch) return build_again_and_again(here, options, wanted);
  const auto start = std::chrono::steady_clock::now();
  SignalQueue signals(kTaken);
  int code = kFailed;
  const auto result = run_build(here, wanted, signals, code);
  if (!result) return code;
  tell_of(here, options, wanted, *result, seconds_since(start));
  return kFine;
}

api::Image build_image_of(Context& context, const config::Settings& settings,
                          const std::string& name, bool quiet) {
  Wanted wanted = wanted_of(context, settings, name);
  wanted.quiet = quiet;
  SignalQueue signals(kTaken);
  int code = kFailed;
  auto result = run_build(context, wanted, signals, code);
  if (!result) throw BuildEnded(code);
  return std::move(result->image);
}

}
