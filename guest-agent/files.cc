#include "files.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "decoded.h"
#include "passwd.h"
#include "place.h"

namespace mvm::guest {

using proto::FilePlace;

// ---- streams in turns -------------------------------------------------------------------------

void Producer::on_frame(const proto::Frame& frame) {
  if (frame.type == proto::FrameType::Cancel)
    channel().fail(Kind::Unavailable, "cancelled");
  else if (frame.type == proto::FrameType::Data)
    channel().consumed(frame.payload.size());  // nobody reads it
}

void Producer::schedule() {
  if (!next_) next_ = loop_->after(std::chrono::milliseconds(0), [this] { turn(); });
}

void Producer::turn() {
  next_.reset();
  if (!channel().is_open()) return;
  try {
    bool more = true;
    if (sent_all()) {
      pending_.clear();
      begin_ = 0;
      more = produce();
      if (channel().ended()) return;
    }
    const size_t room = std::min(channel().room(), held());
    channel().bulk(proto::FrameType::Data, ByteView(pending_).subspan(begin_, room));
    begin_ += room;
    // Without room the host's next credit goes on from here.
    if (more && (sent_all() || channel().room() > 0)) schedule();
  } catch (const Error& error) {
    channel().fail(error.kind(), error.message());
  }
}

// ---- at once ----------------------------------------------------------------------------------

static void stat(Channel& channel, const proto::StatRequest& request) {
  const int follow = request.follow ? 0 : O_NOFOLLOW;
  const sys::Fd fd = open_place(request.place, O_PATH | follow);
  channel.end(proto::encode_ok(status_of(fd.get()).encode()));
}

static void give_to(int directory, const std::string& name, const Identity& owner) {
  if (::geteuid() != 0) return;
  sys::check(::fchownat(directory, name.c_str(), owner.uid, owner.gid, AT_SYMLINK_NOFOLLOW),
             "setting the owner of " + printable(name));
}

static void make_one(const FilePlace& place, const proto::MakeDirectoryRequest& request,
                     const Identity& owner, bool existing_is_fine) {
  const Leaf leaf = leaf_of(place);
  if (::mkdirat(leaf.directory.get(), leaf.name.c_str(), 0700) != 0) {
    if (errno != EEXIST || !existing_is_fine)
      throw SystemError(errno, "making directory " + shown(place));
    // A link to a directory will do on the way; what is no directory fails the next step or here.
    open_place(place, O_PATH | O_DIRECTORY);
    return;
  }
  const sys::Fd made =
      sys::open_at(leaf.directory.get(), leaf.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  sys::check(::fchmod(made.get(), request.mode), "setting the mode of " + shown(place));
  give_to(leaf.directory.get(), leaf.name, owner);
}

static Identity owner_of(const std::string& user) {
  const auto found = find_identity(user.empty() ? "0" : user);
  if (!found) throw Error(Kind::Invalid, found.error());
  return *found;
}

static void make_directory(Channel& channel, const proto::MakeDirectoryRequest& request) {
  const Identity owner = owner_of(request.user);
  if (request.parents) {
    const std::string& path = request.place.path;
    for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1)) {
      const std::string part = path.substr(0, slash);
      const std::string name = part.substr(part.rfind('/') + 1);
      if (name.empty() || name == "." || name == ".." || slash + 1 == path.size()) continue;
      make_one({request.place.root, part}, request, owner, true);
    }
  }
  make_one(request.place, request, owner, request.parents);
  channel.end(proto::encode_ok());
}

static void rename(Channel& channel, const proto::RenameRequest& request) {
  const FilePlace to{request.from.root, request.to};
  const Leaf source = leaf_of(request.from);
  const Leaf target = leaf_of(to);
  const unsigned flags = request.keep_existing ? RENAME_NOREPLACE : 0;
  const std::string doing = "renaming " + shown(request.from) + " to " + shown(to);
  sys::check(::syscall(SYS_renameat2, source.directory.get(), source.name.c_str(),
                       target.directory.get(), target.name.c_str(), flags),
             doing);
  channel.end(proto::encode_ok());
}

std::unique_ptr<Stream> open_file_verb(loop::Loop& loop, Channel& channel, std::string_view verb,
                                       ByteView payload) {
  if (verb == proto::kListVerb) return open_list(loop, channel, payload);
  if (verb == proto::kReadVerb) return open_read(loop, channel, payload);
  if (verb == proto::kWriteVerb) return open_write(channel, payload);
  if (verb == proto::kRemoveVerb) return open_remove(loop, channel, payload);
  if (verb == proto::kWatchVerb) return open_watch(loop, channel, payload);
  if (verb == proto::kStatVerb) {
    stat(channel, decoded<proto::StatRequest>(payload));
  } else if (verb == proto::kMakeDirectoryVerb) {
    make_directory(channel, decoded<proto::MakeDirectoryRequest>(payload));
  } else if (verb == proto::kRenameVerb) {
    rename(channel, decoded<proto::RenameRequest>(payload));
  } else {
    throw Error(Kind::Unsupported, "the agent does not know the verb '" + printable(verb) + "'");
  }
  return nullptr;
}

}
