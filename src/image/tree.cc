#include "mvm/image/tree.h"

namespace mvm::image {

// What a map entry costs beside its name, roughly: a red-black node.
static constexpr uint64_t kEntryOverhead = 64;

bool keeps_xattr(std::string_view name) {
  return name.starts_with("user.") || name == "security.capability" ||
         name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

const std::string& Node::target() const {
  static const std::string kNone;
  return more_ ? more_->target : kNone;
}

const Chunks& Node::chunks() const {
  static const Chunks kNone;
  return more_ ? more_->chunks : kNone;
}

const Children& Node::children() const {
  static const Children kNone;
  return more_ && more_->children ? *more_->children : kNone;
}

Node::More& Node::more() {
  if (!more_) more_ = std::make_unique<More>();
  return *more_;
}

void Node::set_target(std::string_view target) { more().target = target; }
void Node::set_chunks(Chunks chunks) {
  chunks.shrink_to_fit();
  more().chunks = std::move(chunks);
}

std::string_view Tree::keep(std::string_view name) {
  auto* bytes = static_cast<char*>(arena_.allocate(name.size(), 1));
  name.copy(bytes, name.size());
  return {bytes, name.size()};
}

Tree::Tree() {
  Attributes attributes;
  attributes.permissions = 0755;
  add_node(Type::Directory, std::move(attributes));
}

std::optional<NodeId> Tree::child(NodeId directory, std::string_view name) const {
  const Children& children = nodes_[directory].children();
  const auto found = children.find(name);
  if (found == children.end()) return std::nullopt;
  return found->second.id;
}

NodeId Tree::add_node(Type type, Attributes attributes) {
  metadata_bytes_ += sizeof(Node);
  for (const auto& [name, value] : attributes.xattrs.list())
    metadata_bytes_ += kEntryOverhead + name.size() + value.size();
  Node& node = nodes_.emplace_back();
  node.type = type;
  node.attributes = std::move(attributes);
  if (type == Type::Directory) node.more().children = std::make_unique<Children>(&arena_);
  return static_cast<NodeId>(nodes_.size() - 1);
}

void Tree::link(NodeId directory, std::string_view name, NodeId id) {
  Children& children = *nodes_[directory].more().children;
  const auto found = children.find(name);
  if (found != children.end()) {
    --nodes_[found->second.id].links;
    found->second = {id, layer_};
  } else {
    children.emplace(keep(name), Entry{id, layer_});
    metadata_bytes_ += kEntryOverhead + name.size();
  }
  ++nodes_[id].links;
  if (nodes_[id].type == Type::Directory) nodes_[id].parent = directory;
}

void Tree::remove(NodeId directory, std::string_view name) {
  Children& children = *nodes_[directory].more().children;
  const auto found = children.find(name);
  if (found == children.end()) return;
  std::vector<NodeId> doomed{found->second.id};
  children.erase(found);
  while (!doomed.empty()) {
    Node& node = nodes_[doomed.back()];
    doomed.pop_back();
    --node.links;
    for (const auto& [below, entry] : node.children()) doomed.push_back(entry.id);
    if (node.type == Type::Directory) node.more().children->clear();
  }
}

void Tree::touch(NodeId directory, std::string_view name) {
  Children& children = *nodes_[directory].more().children;
  const auto found = children.find(name);
  if (found != children.end()) found->second.layer = layer_;
}

void Tree::hide_lower(NodeId directory, std::string_view name) {
  const Children& children = nodes_[directory].children();
  const auto found = children.find(name);
  if (found != children.end() && !hide_lower_below(found->second)) remove(directory, name);
}

void Tree::hide_lower_in(NodeId directory) {
  const Children& children = nodes_[directory].children();
  for (auto next = children.begin(); next != children.end();) {
    const auto entry = next++;
    if (!hide_lower_below(entry->second)) remove(directory, std::string(entry->first));
  }
}

// Whether something of the current layer is left, so that the entry must stay. The depth is bounded
// by that of paths.
bool Tree::hide_lower_below(Entry entry) {
  if (nodes_[entry.id].type != Type::Directory) return entry.layer == layer_;
  hide_lower_in(entry.id);
  return entry.layer == layer_ || !nodes_[entry.id].children().empty();
}

}
