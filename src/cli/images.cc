// Commands about images.

#include <chrono>

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/sys/file.h"

#include "image_progress.h"
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

api::Image pull(Context& context, const api::PullRequest& request, bool quiet) {
  ImageProgress line(context.console, request.reference, quiet);
  const api::Image image =
      context.service().pull_image(request, [&](const api::ImportProgress& progress) {
        line.show(progress);
        return true;
      });
  context.console.clear_progress();
  return image;
}

// The whole of the name that was asked for; an image may have others.
std::string name_given(const api::Image& image, const std::string& wanted) {
  for (const std::string& name : image.names)
    if (name == wanted || name == wanted + ":latest") return printable(name, 80);
  return printable(image.name, 80);
}

// The digest that pins it: of the index where it has one, since that holds for every platform.
const std::string& pin_of(const api::Image& image) {
  return image.source_index.empty() ? image.source_digest : image.source_index;
}

}

int image_import(Context& context, const Arguments& arguments) {
  api::ImportRequest request;
  const std::string source = *arguments.positional("SOURCE");
  request.source = context.absolute(source);
  const auto given =
      arguments.flag("name") ? arguments.value("name") : arguments.positional("NAME");
  request.name = given ? *given : name_from_source(request.source);
  if (request.name.empty()) throw UsageError(&arguments.command(), "the image needs a NAME");
  request.reference = arguments.value("ref").value_or("");
  request.platform = arguments.value("platform").value_or("");
  request.drop_set_id = arguments.flag("drop-setid");
  if (!sys::exists(request.source)) throw Error(Kind::NotFound, "there is no " + printable(source));

  ImageProgress line(context.console, request.name, arguments.flag("quiet"));
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
    context.console.out("image " + name_given(image, request.name) + ": " +
                        format_size(image.size) + ", " + short_digest(image.digest) + " (" +
                        seconds_since(start) + ")\n");
  }
  return kFine;
}

int image_pull(Context& context, const Arguments& arguments) {
  api::PullRequest request;
  request.reference = *arguments.positional("IMAGE");
  request.name = arguments.value("name").value_or("");
  request.platform = arguments.value("platform").value_or("");
  request.drop_set_id = arguments.flag("drop-setid");
  const auto start = std::chrono::steady_clock::now();
  const api::Image image = pull(context, request, arguments.flag("quiet"));
  if (arguments.flag("json")) {
    context.console.out(api::encode(image) + '\n');
  } else if (!arguments.flag("quiet")) {
    context.console.out("image " + printable(request.reference) + ": " + format_size(image.size) +
                        ", " + short_digest(image.digest) + " (" + seconds_since(start) + ")\n" +
                        "resolved to " + pin_of(image) + "\n");
  }
  return kFine;
}

void ensure_image(Context& context, const std::string& reference, bool quiet) {
  const bool registry =
      reference.find('/') != std::string::npos || reference.find('@') != std::string::npos;
  api::Image image;
  try {
    image = context.service().image(reference);
  } catch (const Error& error) {
    if (error.kind() != Kind::NotFound) throw;
    if (!registry) return;  // whoever needs it says that it is not there
    api::PullRequest request;
    request.reference = reference;
    image = pull(context, request, quiet);
  }
  // Whoever pinned it knows.
  const bool pinned = reference.find('@') != std::string::npos ||
                      ("sha256:" + image.digest).starts_with(reference) ||
                      image.digest.starts_with(reference);
  if (quiet || pinned || image.source_kind != "registry") return;
  context.console.err("mvm: image " + printable(reference) + " resolved to " + pin_of(image) +
                      "\n");
}

int image_tag(Context& context, const Arguments& arguments) {
  context.service().tag_image(*arguments.positional("IMAGE"), {*arguments.positional("NAME")});
  return kFine;
}

int image_verify(Context& context, const Arguments& arguments) {
  for (const std::string& reference : arguments.positionals("IMAGE")) {
    const api::Image image = context.service().verify_image(reference);
    if (!arguments.flag("quiet"))
      context.console.out("image " + printable(reference, 80) + " is whole: " + image.digest +
                          "\n");
  }
  return kFine;
}

int image_prune(Context& context, const Arguments& arguments) {
  api::PruneRequest request{arguments.flag("all"), arguments.flag("dry-run")};
  const api::PruneResult result = context.service().prune_images(request);
  if (arguments.flag("json")) {
    context.console.out(api::encode(result) + '\n');
    return kFine;
  }
  std::string text;
  for (const std::string& digest : result.images)
    text += std::string(request.dry_run ? "would remove " : "removed ") + "image " +
            short_digest(digest) + '\n';
  text += std::string(request.dry_run ? "would free " : "freed ") + format_size(result.bytes) +
          ": " + std::to_string(result.images.size()) + " images, " +
          std::to_string(result.layers) + " layers of earlier pulls\n";
  context.console.out(text);
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
    const bool known = image.problem.empty();
    rows.push_back({image.name.empty() ? "-" : printable(image.name, 60),
                    short_digest(image.digest), known ? format_size(image.size) : "?",
                    known ? image.created_at.substr(0, 10) : "damaged",
                    users.empty() ? "-" : users});
  }
  context.console.out(table(rows));
  for (const api::Image& image : images)
    if (!image.problem.empty()) context.console.err("mvm: " + tame(image.problem) + "\n");
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
