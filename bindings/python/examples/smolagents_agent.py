# pyright: basic, reportMissingImports=false
"""An agent of smolagents whose model, tools and runs are recorded and sealed, through OpenInference.

    python smolagents_agent.py FOLDER

The model is scripted and on loopback. FOLDER gets keys and the record.
"""

import sys
from pathlib import Path

from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from scripted_model import QUESTION, scripted_model
from sealed_traces import sealed_traces
from smolagents import OpenAIModel, ToolCallingAgent, tool


@tool
def leads(of: str) -> str:
    """Counts leads.

    Args:
        of: A name.
    """
    return f"three leads of {of}"


def main(folder: Path) -> None:
    """Runs the agent once, and prints the events of its record."""
    with sealed_traces(folder) as provider, scripted_model(final_tool="final_answer") as address:
        SmolagentsInstrumentor().instrument(tracer_provider=provider)
        model = OpenAIModel("scripted", api_base=address, api_key="none")
        agent = ToolCallingAgent(tools=[leads], model=model, verbosity_level=0)
        print(agent.run(QUESTION))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
