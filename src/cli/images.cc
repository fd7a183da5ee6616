// Commands about images.

#include <chrono>

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/sys/file.h"

#include "json_text.h"

namespace mvm::cli {
namespace {

constexpr size_t kDigestShown = 12;  // characters; enough to tell images apart

std::string short_digest(std::string_view digest) {
  if (const size_t colon = digest.find(':'); colon != digest.npos) digest.remove_prefix(colon + 1);
  return std::string(digest.substr(0, kDigestShown));
}

// "rootfs.tar.gz" -> "rootfs".
std::string name_from_source(std::string_view source) {
  while (source.size() > 1 && source.ends_with('/')) source.remove_suffix(1);
  std::string_view name = source.substr(source.rfind('/') + 1);
  for (const std::string_view compression : {".gz", ".xz", ".bz2", ".zst"})
    if (name.ends_with(compression)) name.remove_suffix(compression.size());
  for (const std::string_view archive : {".tgz", ".txz", ".tbz2", ".tar"})
    if (name.ends_with(archive)) name.remove_suffix(archive.size());
  return std::string(name);
}

// Stage and share done, at most ten times a second.
class ImportProgressLine {
 public:
  ImportProgressLine(Console& console, std::string name, bool quiet)
      : console_(console), name_(std::move(name)), quiet_(quiet) {}

  void show(const api::ImportProgress& progress) {
    if (quiet_) return;
    if (!progress.note.empty()) return console_.err("mvm: " + tame(progress.note) + "\n");
    const auto now = std::chrono::steady_clock::now();
    if (progress.stage == stage_ && now - shown_ < std::chrono::milliseconds(100)) return;
    stage_ = progress.stage;
    shown_ = now;
    std::string text =
        "image " + name_ + ": " + printable(progress.stage, 30) + " " + format_size(progress.done);
    if (progress.total > 0) text += " of " + format_size(progress.total);
    console_.progress(text);
  }

 private:
  Console& console_;
  std::string name_;
  bool quiet_;
  std::string stage_;
  std::chrono::steady_clock::time_point shown_;
};

}

int image_import(Context& context, const Arguments& arguments) {
  api::ImportRequest request;
  const std::string source = *arguments.positional("SOURCE");
  request.source = context.absolute(source);
  const auto given =
      arguments.flag("name") ? arguments.value("name") : arguments.positional("NAME");
  request.name = given ? *given : name_from_source(request.source);
  if (request.name.empty()) throw UsageError(&arguments.command(), "the image needs a NAME");
  if (!sys::exists(request.source)) throw Error(Kind::NotFound, "there is no " + printable(source));

  ImportProgressLine line(context.console, request.name, arguments.flag("quiet"));
  const auto start = std::chrono::steady_clock::now();
  const api::Image image =
      context.service().import_image(request, [&](const api::ImportProgress& progress) {
        line.show(progress);
        return true;
      });
  context.console.clear_progress();
  if (arguments.flag("json")) {
    context.console.out(api::encode(image) + '\n');
  } else if (!arguments.flag("quiet")) {
    context.console.out("image " + image.name + ": " + format_size(image.size) + ", " +
                        short_digest(image.digest) + " (" + seconds_since(start) + ")\n");
  }
  return kFine;
}

int image_list(Context& context, const Arguments& arguments) {
  const std::vector<api::Image> images = context.service().images();
  if (arguments.flag("json") && arguments.flag("quiet"))
    throw UsageError(&arguments.command(), "--quiet and --json contradict");
  if (arguments.flag("json")) {
    context.console.out(api::encode(images) + '\n');
    return kFine;
  }
  if (arguments.flag("quiet")) {
    std::string names;
    for (const api::Image& image : images)
      names += (image.name.empty() ? short_digest(image.digest) : image.name) + '\n';
    context.console.out(names);
    return kFine;
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "DIGEST", "SIZE", "CREATED", "USED BY"}};
  for (const api::Image& image : images) {
    std::string users;
    for (const std::string& user : image.used_by) users += (users.empty() ? "" : " ") + user;
    rows.push_back({image.name.empty() ? "-" : printable(image.name, 60),
                    short_digest(image.digest), format_size(image.size),
                    image.created_at.substr(0, 10), users.empty() ? "-" : users});
  }
  context.console.out(table(rows));
  return kFine;
}

int image_inspect(Context& context, const Arguments& arguments) {
  const api::Image image = context.service().image(*arguments.positional("IMAGE"));
  const std::string document = api::encode(image);
  context.console.out(arguments.flag("json") ? document + '\n' : json_pretty(document));
  return kFine;
}

int image_remove(Context& context, const Arguments& arguments) {
  api::Service& service = context.service();
  for (const std::string& reference : arguments.positionals("IMAGE")) {
    service.remove_image(reference, arguments.flag("force"));
    if (!arguments.flag("quiet"))
      context.console.out("image " + printable(reference, 80) + " is removed\n");
  }
  return kFine;
}

}
