#include "mvm/build/build.h"

#include <algorithm>
#include <map>
#include <set>

#include <fcntl.h>

#include "mvm/agent/copy.h"
#include "mvm/agent/exec.h"
#include "mvm/agent/files.h"
#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/build/guest_image.h"
#include "mvm/build/nix.h"
#include "mvm/build/source.h"
#include "mvm/crypto/hash.h"
#include "mvm/store/images.h"
#include "mvm/sys/file.h"

#include "command.h"
#include "deadline.h"
#include "tail.h"

namespace mvm::build {
namespace {

// In the builder.
constexpr const char* kPlace = "/build/mvm";
constexpr const char* kFlakePlace = "/build/mvm/source";
constexpr const char* kInputs = "/build/mvm/input-";
constexpr const char* kClosure = "/build/mvm/closure";
constexpr const char* kRoots = "/nix/var/nix/gcroots/mvm";

// Changes whenever the same sources would give another image.
constexpr std::string_view kKeyFormat = "mvm flake 3";
constexpr size_t kMaxSaid = 32 * 1024;
constexpr size_t kMaxShown = 8 * 1024;
constexpr size_t kMaxLock = size_t{4} << 20;

// Passes the parts of one build from step to step.
class Build {
 public:
  Build(Builder& builder, const Request& request, const Watch& watch)
      : builder_(builder), request_(request), watch_(watch) {}

  Result run() {
    store::parse_image_name(request_.name);  // throws for what is none, before the work
    look_at_sources();
    if (request_.update_lock) update_lock();
    Result result;
    result.lock_changed = lock_changed_;
    key_ = key_of_work();
    if (made_already(result)) return result;
    connect();
    // Whoever built before us may have built just this.
    if (made_already(result)) return result;
    send_sources();
    const std::string built = nix_build();
    const GuestImage guest = read_guest(built);
    write_closure(guest.root);
    if (!guest.kernel.empty()) result.kernel = take_kernel(guest.kernel);
    step("writing the image");
    result.image = builder_.capture(capture_request(guest, result.kernel));
    forget_sources();
    return result;
  }

 private:
  void step(const std::string& text) const {
    if (watch_.step) watch_.step(text);
  }

  void connect() {
    if (connection_ != nullptr) return;
    connection_ = &builder_.connection();
    deadline_ = Deadline(request_.timeout);
  }

  bool made_already(Result& result) {
    auto image = key_.empty() ? std::nullopt : builder_.adopt({key_, request_.name});
    if (!image) return false;
    result.image = std::move(*image);
    result.unchanged = true;
    return true;
  }

  // ---- what is built ----

  void look_at_sources() {
    if (request_.overrides.size() > kMaxOverrides)
      throw Error(Kind::Invalid,
                  "at most " + std::to_string(kMaxOverrides) + " inputs can be overridden");
    if (request_.flake.remote.empty()) {
      const std::string& local = request_.flake.local;
      const std::string path = local.starts_with('/') ? local : request_.directory + "/" + local;
      source_ = find_source(path, request_.flake.subdirectory, submodules());
    } else if (request_.update_lock) {
      throw Error(Kind::Invalid, "the lock file of a flake that is elsewhere cannot be updated");
    }
    for (const auto& [name, directory] : request_.overrides) {
      inputs_.push_back(input_source(directory));
      input_digests_.push_back(digest_of(inputs_.back()));
    }
  }

  Submodules submodules() const {
    return request_.flake.submodules ? Submodules::Taken : Submodules::LeftOut;
  }

  // Empty when the same words may mean another content tomorrow.
  std::string key_of_work() const {
    if (!source_ && !is_pinned(request_.flake)) return "";
    crypto::Sha256 hash;
    const auto add = [&](std::string_view text) {
      hash.update(as_bytes(std::to_string(text.size()) + ":"));
      hash.update(as_bytes(text));
    };
    add(kKeyFormat);
    add(builder_.identity());
    add(request_.flake.attribute);
    if (source_) {
      add(source_->subdirectory);
      add(source_->revision);
      hash.update(digest_of(*source_));
    } else {
      add(request_.flake.remote);
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      add(request_.overrides[i].first);
      hash.update(input_digests_[i]);
    }
    return std::string(api::kFlakeKey) + crypto::digest_hex(hash.finish());
  }

  std::string shown() const {
    const std::string where =
        source_ ? source_->flake_file().substr(0, source_->flake_file().rfind('/'))
                : request_.flake.remote;
    return where + (request_.flake.attribute.empty() ? "" : "#" + request_.flake.attribute);
  }

  // ---- into the builder ----

  void clear(const std::string& path) const {
    try {
      agent::remove_file(*connection_, {{"", path}, true});
    } catch (const Error& error) {
      if (error.kind() != Kind::NotFound) throw;
    }
  }

  void put(const Source& source, const std::string& place) const {
    agent::PutOptions options;
    options.view = source.view();
    options.follow = true;
    options.watch.progress = [this](uint64_t) { deadline_.left(); };
    agent::put(*connection_, source.root + "/.", place, options);
  }

  void send_sources() {
    if (sent_) return;
    sent_ = true;
    step("copying the sources");
    clear(kPlace);
    agent::make_directory(*connection_, {{"", kPlace}, 0755, true, ""});
    agent::make_directory(*connection_, {{"", kRoots}, 0755, true, ""});
    if (source_) put(*source_, kFlakePlace);
    if (source_ && !source_->subdirectory.empty()) make_repository();
    for (size_t i = 0; i < inputs_.size(); ++i) put(inputs_[i], kInputs + std::to_string(i));
  }

  // Nix before 2.9 knows of flakes below the top only in git repositories. What is in this one is
  // staged and not committed: a flake below the top has no self.rev.
  void make_repository() const {
    must({"git", "-C", kFlakePlace, "init", "--quiet"}, kMaxAnswer);
    must({"git", "-C", kFlakePlace, "add", "--all", "--force", "."}, kMaxAnswer);
  }

  void forget_sources() const {
    try {
      clear(kPlace);
    } catch (const Error&) {
      // They go with the next build at the latest.
    }
  }

  // ---- Nix ----

  std::string reference(bool with_revision) const {
    if (!source_) return request_.flake.remote;
    if (!source_->subdirectory.empty())
      return std::string("git+file://") + kFlakePlace + "?dir=" + escaped(source_->subdirectory);
    std::string text = std::string("path:") + kFlakePlace;
    if (with_revision && !source_->revision.empty()) {
      text += "?rev=" + source_->revision;
      if (const auto count = source_->revision_count())
        text += "&revCount=" + std::to_string(*count);
    }
    return text;
  }

  // As part of a URL's query.
  static std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '/' || c == '.' || c == '_' || c == '-';
      if (plain)
        out += c;
      else
        out += "%" + hex(std::as_bytes(std::span(&c, 1)));
    }
    return out;
  }

  std::vector<std::string> nix(std::initializer_list<std::string_view> words) const {
    std::vector<std::string> argv{"nix"};
    argv.insert(argv.end(), words.begin(), words.end());
    if (request_.offline) argv.emplace_back("--offline");
    for (size_t i = 0; i < inputs_.size(); ++i) {
      argv.emplace_back("--override-input");
      argv.push_back(request_.overrides[i].first);
      argv.push_back(std::string("path:") + kInputs + std::to_string(i));
    }
    return argv;
  }

  struct Said {
    std::string out;
    std::string err;  // its end
    proto::ExecResult result;
  };

  enum class Aloud { Yes, No };
  Said ask(std::vector<std::string> argv, size_t limit, Aloud aloud = Aloud::Yes) const {
    proto::ExecRequest exec;
    exec.argv = std::move(argv);
    exec.cwd = "/";
    // Also for a builder whose image has no nix.conf of ours.
    exec.env = {{"HOME", "/root"},
                {"USER", "root"},
                {"NIX_USER_CONF_FILES", "/dev/null"},
                {"NIX_CONFIG",
                 "extra-experimental-features = nix-command flakes\nwarn-dirty = false\n"
                 "accept-flake-config = false\n"}};
    exec.timeout = deadline_.left();
    Said said;
    Tail err(kMaxSaid);
    said.result = agent::run_command(*connection_, exec, [&](agent::Stream stream, ByteView data) {
      if (stream == agent::Stream::Err) {
        err.add(as_text(data));
        if (watch_.log && aloud == Aloud::Yes) watch_.log(as_text(data));
        return;
      }
      if (said.out.size() + data.size() > limit)
        throw Error(Kind::Exhausted, "the builder says more than " + format_size(limit));
      said.out += as_text(data);
    });
    said.err = err.text();
    if (said.result.timed_out) deadline_.over();
    return said;
  }

  static bool fine(const Said& said) {
    return said.result.exit_code == 0 && said.result.signal == 0;
  }

  std::string must(std::vector<std::string> argv, size_t limit) const {
    Said said = ask(std::move(argv), limit);
    if (!fine(said)) fail(said);
    return std::move(said.out);
  }

  [[noreturn]] void fail(const Said& said) const {
    if (said.result.signal != 0)
      throw Error(
          Kind::Unavailable,
          "Nix was ended by signal " + std::to_string(said.result.signal) +
              (said.result.signal == 9 ? "; if the builder ran out of memory: [builder] mem" : ""));
    Explanation why = explain(said.err, command_of(request_));
    std::string text = readable(said.err);
    if (const std::string path = untracked_in(text); !path.empty()) {
      why.message = path + " is not tracked by git, so it is no part of the flake";
      why.hint = "git add " + path;
    }
    throw BuildFailed(shown() + ": " + why.message, why.hint, std::move(text));
  }

  // From its first "error:" on, with the places of the flake's own files as they are called here.
  std::string readable(const std::string& said) const {
    size_t begin = said.starts_with("error:") ? 0 : said.find("\nerror:");
    if (begin != said.npos && begin != 0) ++begin;
    std::string text = begin == said.npos ? said : said.substr(begin);
    if (text.size() > kMaxShown) text.erase(0, text.size() - kMaxShown);
    if (source_) {
      const std::string copy = copy_in_store();
      for (size_t at = 0; !copy.empty() && (at = text.find(copy, at)) != text.npos;)
        text.replace(at, copy.size(), source_->root), at += source_->root.size();
      const std::string place = kFlakePlace;
      for (size_t at = 0; (at = text.find("path:" + place, at)) != text.npos;)
        text.replace(at, place.size() + 5, source_->root), at += source_->root.size();
    }
    return text;
  }

  // The first file that Nix misses, by its name here, and that is there all the same.
  std::string untracked_in(std::string_view text) const {
    if (!source_ || !source_->git || text.find("No such file") == text.npos) return "";
    const std::string top = source_->root == "/" ? "/" : source_->root + "/";
    for (size_t at = 0; (at = text.find("'" + top, at)) != text.npos; ++at) {
      const std::string_view path = text.substr(at + 1, text.find('\'', at + 1) - at - 1);
      if (!source_->tracked.contains(path.substr(top.size())) && sys::exists(std::string(path)))
        return std::string(path.substr(top.size()));
    }
    return "";
  }

  // Where Nix has put the flake's files: their place in the store says what they are, so putting
  // them there again tells. Empty when that cannot be.
  std::string copy_in_store() const {
    try {
      clear(std::string(kFlakePlace) + "/.git");
      const Said said =
          ask({"nix", "store", "add-path", "--name", "source", kFlakePlace}, kMaxAnswer, Aloud::No);
      const std::string path = said.out.substr(0, said.out.find('\n'));
      return fine(said) && is_store_path(path) ? path : "";
    } catch (const Error&) {
      return "";  // the message is less pretty
    }
  }

  std::string nix_build() const {
    step("evaluating and building");
    std::string flake = reference(true);
    if (!request_.flake.attribute.empty()) flake += "#" + request_.flake.attribute;
    std::vector<std::string> argv =
        nix({"build", "--json", "--no-update-lock-file", "--log-lines", "25"});
    argv.emplace_back("--out-link");
    argv.push_back(std::string(kRoots) + "/" + root_name());
    if (request_.verbose) argv.emplace_back("--print-build-logs");
    argv.push_back(std::move(flake));
    return built_path(must(std::move(argv), kMaxAnswer));
  }

  // The last build of each name is kept from the garbage collection.
  std::string root_name() const {
    return crypto::digest_hex(crypto::sha256(as_bytes(request_.name + "\n" + shown())))
        .substr(0, 32);
  }

  // ---- the lock file ----

  void update_lock() {
    connect();
    send_sources();
    step("updating flake.lock");
    std::vector<std::string> argv = nix({"flake", "lock"});
    argv.push_back(reference(false));
    must(std::move(argv), kMaxAnswer);
    const std::string place = std::string(kFlakePlace) +
                              (source_->subdirectory.empty() ? "" : "/" + source_->subdirectory) +
                              "/flake.lock";
    if (!is_there(place)) return;  // a flake without inputs has none
    const std::string lock = read_text(place, kMaxLock);
    pins_of(lock);  // what we write is a lock file
    const std::string file = source_->lock_file();
    if (sys::exists(file) && sys::read_text_file(file, kMaxLock) == lock) return;
    sys::write_file_atomic(file, as_bytes(lock), 0644);
    track(*source_, file);
    lock_changed_ = true;
    source_ = find_source(source_->flake_file().substr(0, source_->flake_file().rfind('/')), "",
                          submodules());
    sent_ = false;
  }

  bool is_there(const std::string& path) const {
    try {
      agent::stat_file(*connection_, {{"", path}, true});
      return true;
    } catch (const Error& error) {
      if (error.kind() != Kind::NotFound) throw;
      return false;
    }
  }

  std::string read_text(const std::string& path, size_t limit) const {
    std::string text;
    agent::read_file(*connection_, {{"", path}, 0, limit + 1},
                     [&](ByteView data) { text += as_text(data); });
    if (text.size() > limit)
      throw Error(Kind::Exhausted, path + " in the builder is larger than " + format_size(limit));
    return text;
  }

  // ---- out of the builder ----

  GuestImage read_guest(const std::string& built) const {
    const std::string file = built + "/image.json";
    const auto what = agent::stat_file(*connection_, {{"", built}, false});
    if (what.type != proto::FileType::Directory || !is_there(file))
      throw BuildFailed(
          shown() + ": what it makes is no guest (" + built + " has no image.json)",
          "make one of it: mvm.lib.mkGuest { name = …; packages = [ … ]; } (docs/build.md)", "");
    return parse_guest_image(read_text(file, kMaxGuestImage));
  }

  // The list of what the image is made of, for tar.
  void write_closure(const std::string& root) const {
    const std::string listed = must({"nix-store", "--query", "--requisites", root}, kMaxClosure);
    std::string lines;
    for (const std::string& path : store_paths(listed)) lines += path.substr(1) + "\n";
    size_t sent = 0;
    agent::write_file(*connection_, {{"", kClosure}}, [&](size_t room) {
      const ByteView piece = as_bytes(lines).subspan(sent, std::min(room, lines.size() - sent));
      sent += piece.size();
      return piece;
    });
  }

  std::string take_kernel(const std::string& path) const {
    step("taking the kernel");
    const sys::TempDir room;
    agent::GetOptions options;
    options.write.max_bytes = uint64_t{1} << 30;
    options.write.max_entries = 10'000;
    agent::get(*connection_, path, room.path() + "/bundle", options);
    return builder_.install_kernel(room.path() + "/bundle");
  }

  api::CaptureRequest capture_request(const GuestImage& guest, const std::string& kernel) const {
    api::CaptureRequest capture;
    // Entries in one order, of one owner and time: the same closure, the same bytes. The skeleton
    // first, so that what it says of "/" and "/nix" holds.
    capture.argv = {"tar",
                    "--create",
                    "--format=posix",
                    "--sort=name",
                    "--mtime=@1",
                    "--owner=0",
                    "--group=0",
                    "--numeric-owner",
                    "--mode=u+w",
                    "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime",
                    "--file=-",
                    "--directory=" + guest.root,
                    ".",
                    "--directory=/",
                    "--verbatim-files-from",
                    "--files-from=" + std::string(kClosure)};
    capture.name = request_.name;
    capture.source = shown();
    // One that is not to be found again has a key of its own all the same.
    capture.key = key_.empty() ? std::string(api::kFlakeKey) + "unpinned" : key_;
    capture.entrypoint = guest.entrypoint;
    for (const auto& [name, value] : guest.env) capture.env.push_back(name + "=" + value);
    capture.workdir = guest.workdir;
    capture.user = guest.user;
    capture.health = guest.health;
    capture.labels = guest.labels;
    capture.attributes = guest.attributes;
    capture.kernel = kernel;
    add_provenance(capture.labels);
    capture.timeout_ms = static_cast<uint64_t>(deadline_.left().count());
    return capture;
  }

  // What it was made from: mkGuest's labels cannot say it in our name (parse_guest_image).
  void add_provenance(std::map<std::string, std::string>& labels) const {
    const auto add = [&](const std::string& input, const std::string& pin) {
      if (labels.size() < kMaxNames) labels["mvm.flake.input." + input] = pin;
    };
    // First those that the lock's pins do not hold for.
    for (size_t i = 0; i < inputs_.size(); ++i)
      add(request_.overrides[i].first, "sha256:" + crypto::digest_hex(input_digests_[i]));
    if (!source_ || !sys::exists(source_->lock_file())) return;
    const std::string lock = sys::read_text_file(source_->lock_file(), kMaxLock);
    labels["mvm.flake.lock"] = "sha256:" + crypto::digest_hex(crypto::sha256(as_bytes(lock)));
    for (const auto& [input, pin] : pins_of(lock))
      if (!labels.contains("mvm.flake.input." + input)) add(input, pin);
  }

  Builder& builder_;
  const Request& request_;
  const Watch& watch_;
  std::optional<Source> source_;
  std::vector<Source> inputs_;
  std::vector<crypto::Digest> input_digests_;
  Deadline deadline_;
  agent::Connection* connection_ = nullptr;
  std::string key_;
  bool sent_ = false;
  bool lock_changed_ = false;
};

}

Result build(Builder& builder, const Request& request, const Watch& watch) {
  return Build(builder, request, watch).run();
}

}
