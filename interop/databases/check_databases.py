"""Runs LangGraph and the OpenAI Agents SDK with functions in the place of models, and seals their databases.

The check shows that, while both programs have their databases open,

* each state is sealed and verifies, and an independent export (rows.py) gives the same bytes;
* sessions are listed and shown, also after the program deleted them;
* messages, calls and tokens of LangGraph are those that its own reader counts;
* an edit and a deletion of a row are named, and an older copy of a database is `rolled_back`.
"""
import argparse
import asyncio
import json
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
from typing import TypedDict

import rows

TURNS = 3


class Scene:
    def __init__(self, folder, threadseal):
        self.folder, self.threadseal = folder, threadseal
        self.environment = {"HOME": str(folder), "THREADSEAL_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}
        self.run(0, "init")

    def run(self, code, *arguments):
        ran = subprocess.run([self.threadseal, *map(str, arguments)], env=self.environment, cwd=self.folder,
                             capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
        if ran.returncode != code:
            fail(f"threadseal {' '.join(map(str, arguments))} ended with {ran.returncode}, not {code}:\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    def logs(self, kind):
        return sorted((self.folder / "home/exports" / kind).rglob("*.jsonl"))

    def seal(self, database, kind):
        """Seals what the program wrote; returns how many states the independent export confirmed."""
        self.run(0, "archive", "add", database)
        self.run(0, "verify", database)
        return sum(rows.check(log) for log in self.logs(kind))

    def verdict(self, code, database):
        report = json.loads(self.run(code, "verify", "--json", database))["results"][0]
        return report["verdict"], report["findings"]


def langgraph(scene):
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        words: list

    def add(state):
        return {"words": [*state["words"], f"word {len(state['words'])} ü \u2028"]}

    graph = StateGraph(State)
    graph.add_node("add", add)
    graph.add_edge(START, "add")
    graph.add_edge("add", END)
    database = scene.folder / "graphs/checkpoints.db"
    database.parent.mkdir()
    with SqliteSaver.from_conn_string(str(database)) as saver:
        run = graph.compile(checkpointer=saver)
        for turn in range(TURNS):
            for thread in ["thread one", "t2"]:
                given = {"words": [turn]} if turn == 0 else {"words": [turn, 2.5, b"\x00\xff"]}
                run.invoke(given, {"configurable": {"thread_id": thread}})
            states = scene.seal(database, "langgraph")
        shutil.copy(database, scene.folder / "older.db")
        listed = {row["id"] for row in json.loads(scene.run(0, "list", "--json"))["sessions"]}
        if "langgraph:t2" not in listed or len(listed) != 2:
            fail(f"listed: {listed}")
        scene.run(0, "show", "langgraph:t2")
        saver.delete_thread("t2")
        scene.run(0, "archive", "add", database)
        scene.run(0, "verify", "langgraph:t2")
    with sqlite3.connect(database) as edit:
        edit.execute("UPDATE writes SET value = x'91a178' WHERE rowid = (SELECT min(rowid) FROM writes)")
    verdict, findings = scene.verdict(3, database)
    if verdict != "partial" or "of table writes changed" not in findings[0]["message"]:
        fail(f"an edit: {verdict} {findings}")
    return states


def graph_of_messages():
    """A graph with a model, a tool that fails, and a subgraph that adds messages of its own."""
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    class State(MessagesState):
        note: str

    asked = [0]

    def model(_state):
        asked[0] += 1
        if asked[0] % 2 == 0:
            usage = {"input_tokens": 20, "output_tokens": 2, "total_tokens": 22}
            return {"messages": [AIMessage("two files", usage_metadata=usage)], "note": "x"}
        call = {"id": f"c{asked[0]}", "name": "ls"}
        content = [{"type": "text", "text": "I look for frobnicators"}, {"type": "tool_use", "input": {}, **call}]
        usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13, "input_token_details": {"cache_read": 4}}
        return {"messages": [AIMessage(content, tool_calls=[{"args": {"path": "/"}, **call}], usage_metadata=usage)]}

    def tool(state):
        call = state["messages"][-1].tool_calls[0]
        return {"messages": [ToolMessage("no such file", tool_call_id=call["id"], name="ls", status="error")]}

    def inner(state):
        return {"messages": [AIMessage("from the subgraph", id=f"inner {len(state['messages'])}")]}

    def next_node(state):
        return "tool" if getattr(state["messages"][-1], "tool_calls", None) else "sub"

    sub = StateGraph(State)
    sub.add_node("inner", inner)
    sub.add_edge(START, "inner")
    sub.add_edge("inner", END)
    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_node("sub", sub.compile(checkpointer=True))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", next_node, ["tool", "sub"])
    graph.add_edge("tool", "model")
    graph.add_edge("sub", END)
    return graph


def langgraph_messages(scene):
    """Counts what the library reads from its checkpoints, and compares the list."""
    from langchain_core.messages import RemoveMessage
    from langgraph.checkpoint.sqlite import SqliteSaver

    database = scene.folder / "chats/checkpoints.db"
    database.parent.mkdir()
    with SqliteSaver.from_conn_string(str(database)) as saver:
        run = graph_of_messages().compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "chat"}}
        for turn in range(TURNS):
            run.invoke({"messages": [("user", f"list {turn}")]}, config)
            scene.run(0, "archive", "add", database)
        first = run.get_state(config).values["messages"][0]
        run.update_state(config, {"messages": [RemoveMessage(id=first.id)]})
        scene.run(0, "archive", "add", database)
        scene.run(0, "verify", database)
        messages = {}
        for found in saver.list(config):
            for message in found.checkpoint["channel_values"].get("messages", []):
                messages.setdefault(message.id, message)
    kinds = [message.type for message in messages.values()]
    calls = sum(len(getattr(message, "tool_calls", [])) for message in messages.values())
    usages = [getattr(message, "usage_metadata", None) or {} for message in messages.values()]
    tokens = sum(usage.get("input_tokens", 0) + usage.get("output_tokens", 0) for usage in usages)
    listed = {row["id"]: row for row in json.loads(scene.run(0, "list", "--json"))["sessions"]}
    found = listed["langgraph:chat"]
    counted = (len(messages), calls, tokens)
    if (found["turns"], found["tools"], found["tokens"]) != counted or "human" not in kinds:
        fail(f"counted {counted} {kinds}, listed {found}")
    if listed["langgraph:t2"]["turns"] is not None:
        fail(f"a graph without messages has a count: {listed['langgraph:t2']}")
    scene.run(0, "search", "frobnicators")
    shown = scene.run(0, "show", "langgraph:chat")
    if "from the subgraph" not in shown or "list 0" not in shown:
        fail(f"shown: {shown}")
    return counted


def openai_agents(scene):
    from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class Scripted(Model):
        calls = 0

        async def get_response(self, *arguments, **named):
            self.calls += 1
            if self.calls % 2:
                output = ResponseFunctionToolCall(arguments='{"text": "x"}', call_id=f"call_{self.calls}", name="measure",
                                                  type="function_call", id=f"fc_{self.calls}")
            else:
                text = ResponseOutputText(annotations=[], text="it has one letter", type="output_text")
                output = ResponseOutputMessage(id=f"msg_{self.calls}", content=[text], role="assistant",
                                               status="completed", type="message")
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *arguments, **named):
            raise NotImplementedError

    @function_tool
    def measure(text: str) -> int:
        """Counts letters."""
        return len(text)

    database = scene.folder / "agents/sessions.db"
    database.parent.mkdir()
    session = SQLiteSession("conversation/1", str(database))
    agent = Agent(name="counter", model=Scripted(), tools=[measure])
    for turn in range(TURNS):
        asyncio.run(Runner.run(agent, f"How long is x? {turn}", session=session))
        states = scene.seal(database, "openai-agents")
    asyncio.run(session.pop_item())
    states = scene.seal(database, "openai-agents")
    listed = json.loads(scene.run(0, "list", "--json", "--agent", "openai-agents"))["sessions"][0]
    if (listed["turns"], listed["tools"]) != (4 * TURNS - 1, TURNS):
        fail(f"counts: {listed}")
    scene.run(0, "show", listed["id"])
    scene.run(0, "search", "letter")
    older = scene.folder / "copy.db"
    with sqlite3.connect(database) as live, sqlite3.connect(older) as copy:
        live.backup(copy)
    asyncio.run(Runner.run(agent, "And y?", session=session))
    scene.seal(database, "openai-agents")
    session.close()
    for ending in ["-wal", "-shm"]:
        pathlib.Path(f"{database}{ending}").unlink(missing_ok=True)
    shutil.copy(older, database)
    verdict, findings = scene.verdict(1, database)
    if verdict != "rolled_back" or findings[0]["code"] != "database_older":
        fail(f"an older copy: {verdict} {findings}")
    return states


def fail(text):
    raise SystemExit(text)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--threadseal", required=True, help="the command")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(pathlib.Path(folder).resolve(), str(pathlib.Path(given.threadseal).resolve()))
        print(f"langgraph: {langgraph(scene)} states sealed and repeated")
        print(f"langgraph: {langgraph_messages(scene)} messages, calls and tokens, as the library counts them")
        print(f"openai-agents: {openai_agents(scene)} states sealed and repeated")


if __name__ == "__main__":
    main()
